// A map of the computers whose place is known, seen from above: x to the right, z down, as the game counts.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { link } from "../lib/route.js";
import { oneLine } from "../lib/text.js";
import { place } from "./tiles.js";

const HIGH = 300, EDGE = 56, LEAST_BLOCKS = 16;
const NAME_WIDE = 84, NAME_HIGH = 15;
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

// Blocks between two lines, so that there are about six.
function stepOf(blocks) {
  const size = 10 ** Math.floor(Math.log10(blocks / 6 || 1));
  return Math.max(1, (STEPS.find((one) => one * size * 6 >= blocks) ?? 10) * size);
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
  const step = stepOf(width / frame.scale);
  const from = (size, at) => Math.ceil(frame.first(size, at) / step) * step;
  const all = (size, at) => Array.from({ length: Math.ceil(size / frame.scale / step) }, (_, i) => from(size, at)
    + i * step);
  return html`${all(width, "x").map((x) => html`<line class="grid-line" x1=${frame.across(x)} x2=${frame.across(x)}
      y1="0" y2=${HIGH} /><text class="coordinate" x=${frame.across(x) + 4} y=${HIGH - 6}>${x}</text>`)}
    ${all(HIGH, "z").map((z) => html`<line class="grid-line" y1=${frame.down(z)} y2=${frame.down(z)} x1="0"
      x2=${width} /><text class="coordinate" x="4" y=${frame.down(z) - 4}>${z}</text>`)}`;
}

// The spots in pixels; names of spots that would stand on one another are stacked, as many as `over` says.
function placed(spots, frame) {
  const done = [];
  for (const one of spots) {
    const x = frame.across(one.position.x), z = frame.down(one.position.z);
    const over = done.filter((other) => Math.abs(other.x - x) < NAME_WIDE && Math.abs(other.z - z) < NAME_HIGH).length;
    done.push({ one, x, z, over });
  }
  return done;
}

const Spot = ({ one, x, z, over }) => html`<a href=${link("computers", [one.computer])}
    aria-label="${oneLine(one.computer)} at ${place(one.position)}">
  <circle class="spot ${one.state}" cx=${x} cy=${z} r="6" />
  <text class="spot-name" x=${x} y=${z - 12 - over * NAME_HIGH} text-anchor="middle">${oneLine(one.computer, 24)}</text>
  </a>`;

export function WorldMap({ computers }) {
  const box = useRef(null);
  const width = useWidth(box);
  const spots = computers.filter((one) => one.position);
  const frame = frameOf(spots, width);
  return html`<div class="card map" ref=${box}><svg viewBox="0 0 ${width} ${HIGH}" width=${width} height=${HIGH}
      role="group" aria-label="Map: x to the right, z down">
    <${Lines} frame=${frame} width=${width} />
    ${placed(spots, frame).map((spot) => html`<${Spot} key=${spot.one.computer} ...${spot} />`)}</svg></div>`;
}
