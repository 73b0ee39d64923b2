// A map of the computers whose place is known, seen from above: x to the right, z down, as the game counts.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { link } from "../lib/route.js";
import { oneLine } from "../lib/text.js";
import { inOrder, place } from "./tiles.js";

const HIGH = 300, EDGE = 56, LEAST_BLOCKS = 16;
const NAME_CHARS = 20, CHAR_WIDE = 9, NAME_HIGH = 15;
// Rows of a stack of names: more have no room above the topmost spot.
const MOST_NAMES = 3;
// Pixels that the widest coordinate needs.
const COORDINATE_WIDE = 90;
const STEPS = [1, 2, 5];

function useWidth(box) {
  const [width, set] = useState(600);
  useEffect(() => {
    const mine = box.current;
    const sized = new ResizeObserver(() => set(Math.max(240, mine.clientWidth)));
    sized.observe(mine);
    return () => sized.disconnect();
  }, []);
  return width;
}

// Blocks between two lines, so that there are about six, or as many as have room for their numbers.
function stepOf(blocks, width) {
  const most = Math.min(6, width / COORDINATE_WIDE);
  const size = 10 ** Math.floor(Math.log10(blocks / most || 1));
  return Math.max(1, (STEPS.find((one) => one * size * most >= blocks) ?? 10) * size);
}

// The part of the world that is shown: {x, z} of its middle, and pixels for each block.
function frameOf(spots, width) {
  const xs = spots.map((one) => one.position.x), zs = spots.map((one) => one.position.z);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...zs), Math.max(...zs)];
  const scale = Math.min((width - 2 * EDGE) / Math.max(LEAST_BLOCKS, right - left),
    (HIGH - 2 * EDGE) / Math.max(LEAST_BLOCKS, bottom - top));
  const middle = { x: (left + right) / 2, z: (top + bottom) / 2 };
  return { scale, across: (x) => width / 2 + (x - middle.x) * scale, down: (z) => HIGH / 2 + (z - middle.z) * scale,
    first: (size, at) => middle[at] - size / 2 / scale };
}

function Lines({ frame, width }) {
  const step = stepOf(width / frame.scale, width);
  const from = (size, at) => Math.ceil(frame.first(size, at) / step) * step;
  const all = (size, at) => Array.from({ length: Math.ceil(size / frame.scale / step) }, (_, i) => from(size, at)
    + i * step);
  return html`${all(width, "x").map((x) => html`<line class="grid-line" x1=${frame.across(x)} x2=${frame.across(x)}
      y1="0" y2=${HIGH} /><text class="coordinate" x=${frame.across(x) + 4} y=${HIGH - 6}>${x}</text>`)}
    ${all(HIGH, "z").map((z) => html`<line class="grid-line" y1=${frame.down(z)} y2=${frame.down(z)} x1="0"
      x2=${width} /><text class="coordinate" x="4" y=${frame.down(z) - 4}>${z}</text>`)}`;
}

const nameOf = (one) => {
  const whole = [...oneLine(one.computer)];
  return whole.length > NAME_CHARS ? `${whole.slice(0, NAME_CHARS - 1).join("")}…` : whole.join("");
};

// The spots in pixels, in groups whose names would stand on one another: a group has one stack of names.
function grouped(spots, frame) {
  const groups = [];
  for (const one of inOrder(spots)) {
    const name = nameOf(one), wide = CHAR_WIDE * name.length;
    const spot = { one, name, wide, x: frame.across(one.position.x), z: frame.down(one.position.z) };
    const near = groups.find(([first]) => Math.abs(first.x - spot.x) < (first.wide + wide) / 2
      && Math.abs(first.z - spot.z) < NAME_HIGH * MOST_NAMES);
    if (near) near.push(spot);
    else groups.push([spot]);
  }
  return groups;
}

// Names at the edge are moved into the map.
const Name = ({ x, wide, y, width, children }) => html`<text class="spot-name" text-anchor="middle" y=${y}
  x=${Math.min(Math.max(x, wide / 2 + 4), width - wide / 2 - 4)}>${children}</text>`;

const Dot = ({ one, x, z }) => html`<circle class="spot ${one.state}" cx=${x} cy=${z} r="6" />`;

function Group({ spots, width }) {
  const named = spots.length > MOST_NAMES ? spots.slice(0, MOST_NAMES - 1) : spots;
  const rest = spots.slice(named.length);
  const y = (row) => spots[0].z - 12 - row * NAME_HIGH;
  const more = `+${rest.length} more`;
  return html`${rest.length > 0 && html`<a href=${link("computers")} aria-label="${more}: all computers">
      ${rest.map((spot) => html`<${Dot} key=${spot.one.computer} ...${spot} />`)}
      <${Name} x=${spots[0].x} wide=${CHAR_WIDE * more.length} y=${y(named.length)} width=${width}>${more}<//></a>`}
    ${named.map((spot, row) => html`<a key=${spot.one.computer} href=${link("computers", [spot.one.computer])}
        aria-label="${oneLine(spot.one.computer)} at ${place(spot.one.position)}">
      <${Dot} ...${spot} />
      <${Name} x=${spots[0].x} wide=${spot.wide} y=${y(row)} width=${width}>${spot.name}<//></a>`)}`;
}

export function WorldMap({ computers }) {
  const box = useRef(null);
  const width = useWidth(box);
  const spots = computers.filter((one) => one.position);
  const frame = frameOf(spots, width);
  return html`<div class="card map" ref=${box}><svg viewBox="0 0 ${width} ${HIGH}" width=${width} height=${HIGH}
      role="group" aria-label="Map: x to the right, z down">
    <${Lines} frame=${frame} width=${width} />
    ${grouped(spots, frame).map((group) => html`<${Group} key=${group[0].one.computer} spots=${group}
      width=${width} />`)}</svg></div>`;
}
