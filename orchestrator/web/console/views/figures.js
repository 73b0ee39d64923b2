// Figures over time: how tasks ended, how long people took to decide, tokens, and how long models took.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { useStore } from "../lib/store.js";
import { theme } from "../lib/theme.js";
import { plural, span } from "../lib/ui.js";

const HIGH = 132, DAY_S = 86_400;
const NUMBER = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const HOUR = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit" });
const TICK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const time = (seconds) => {
  if (seconds === null) return "";
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 10 ? `${seconds.toFixed(1)} s` : span(seconds);
};

// The library, and its style, come with the first figure that is shown.
let coming = null;
function library() {
  coming ??= import("../vendor/uplot/uplot.mjs").then((found) => {
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = new URL("../vendor/uplot/uplot.css", import.meta.url).pathname;
    document.head.append(style);
    return found.default;
  });
  return coming;
}

// When a bucket begins; days are those of UTC, as the server counts.
const at = (bucket, by) => (by === "hour" ? HOUR : DAY).format(new Date(bucket.at));

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const OUTCOMES = [["completed", "Completed", "plot-good"], ["unverified", "Unverified", "plot-warn"],
  ["failed", "Failed", "plot-bad"], ["canceled", "Canceled", "plot-rest"]];

// Each: its title, the figure for the whole time, its lines {of, name, colour}, how a value is said, and its shape.
const FIGURES = [
  { title: "Tasks that ended", lines: OUTCOMES.map(([of, name, look]) => ({ of, name, look })), bars: true,
    say: (value) => NUMBER.format(value), whole: (all) => NUMBER.format(sum(all, OUTCOMES.map(([of]) => of))) },
  { title: "Time to approval", lines: [{ of: "decision_s", name: "Median", look: "plot-warn" }], say: time,
    whole: (all) => time(middle(all, "decision_s", "decisions")), note: (all) => plural(sum(all, ["decisions"]),
      "decision") },
  { title: "Tokens", lines: [{ of: "tokens", name: "Tokens", look: "plot-ink" }], bars: true,
    say: (value) => NUMBER.format(value), whole: (all) => NUMBER.format(sum(all, ["tokens"])) },
  { title: "Model latency", lines: [{ of: "reply_most_s", name: "Longest", look: "plot-rest" },
    { of: "reply_s", name: "Median", look: "plot-ink" }], say: time,
  whole: (all) => time(middle(all, "reply_s", "replies")), note: (all) => plural(sum(all, ["replies"]), "reply",
    "replies") },
];

const sum = (buckets, names) =>
  buckets.reduce((all, one) => all + names.reduce((more, name) => more + one[name], 0), 0);

// The medians of the buckets, weighted by how many values each has.
function middle(buckets, name, weight) {
  const some = buckets.filter((one) => one[name] !== null).sort((a, b) => a[name] - b[name]);
  let left = sum(some, [weight]) / 2;
  for (const one of some) {
    left -= one[weight];
    if (left <= 0) return one[name];
  }
  return null;
}

// Values as the library draws them; bars that stand on one another are drawn from the longest to the shortest.
function dataOf(lines, buckets, bars) {
  const columns = lines.map(({ of }) => buckets.map((one) => one[of]));
  if (bars && lines.length > 1) {
    columns.slice(1).forEach((column, before) =>
      column.forEach((value, i) => { column[i] = value + columns[before][i]; }));
    columns.reverse();
  }
  return [buckets.map((one) => Date.parse(one.at) / 1000), ...columns];
}

function options(Library, { lines, bars, say }, { width, step, onPoint }) {
  const muted = colour("muted"), line = colour("line");
  const axis = { stroke: muted, font: "11px system-ui, sans-serif", ticks: { show: false } };
  const drawn = bars && lines.length > 1 ? [...lines].reverse() : lines;
  return {
    width, height: HIGH, padding: [8, 14, 0, 0], legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: !bars, size: 6 } },
    scales: { x: { time: true, range: (_, from, to) => [from, to + step] },
      y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
    axes: [{ ...axis, grid: { show: false }, size: 24, space: 64, values: (_, ticks) => ticks.map((one) =>
        (step < DAY_S ? TICK : DAY).format(new Date(one * 1000))) },
      { ...axis, grid: { stroke: line, width: 1 }, size: 46, space: 32, values: (_, ticks) => ticks.map((one) =>
        (Number.isInteger(one) || one < 10 ? say(one).replace(".0 s", " s") : "")) }],
    series: [{}, ...drawn.map(({ name, look }) => ({
      label: name, stroke: colour(look), width: bars ? 0 : 2, fill: bars ? colour(look) : undefined, spanGaps: true,
      paths: bars ? Library.paths.bars({ size: [0.8, 40], align: 1 }) : undefined, points: { show: !bars, size: 5,
        fill: colour(look) },
    }))],
    hooks: { setCursor: [({ cursor }) => onPoint(cursor.idx ?? null)] },
  };
}

function Plot({ figure, buckets, by }) {
  const box = useRef(null);
  const [point, setPoint] = useState(null);
  const looks = useStore(theme);
  const step = by === "hour" ? 3600 : DAY_S;
  useEffect(() => {
    let plot = null, over = false;
    const place = box.current;
    const resized = new ResizeObserver(() => plot?.setSize({ width: place.clientWidth, height: HIGH }));
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const draw = (Library) => {
      if (over) return;
      plot?.destroy();
      plot = new Library(options(Library, figure, { width: place.clientWidth, step, onPoint: setPoint }),
        dataOf(figure.lines, buckets, figure.bars), place);
    };
    const again = () => library().then(draw);
    again();
    resized.observe(place);
    dark.addEventListener("change", again);
    return () => {
      over = true;
      resized.disconnect();
      dark.removeEventListener("change", again);
      plot?.destroy();
    };
  }, [buckets, looks]);
  const one = point === null ? null : buckets[point];
  return html`<div class="plot" ref=${box} aria-hidden="true"></div>
    <p class="plot-point muted" aria-hidden="true">${one ? pointOf(figure, one, by) : html`${figure.lines.map((line) =>
      html`<span><i class="swatch ${line.look}"></i>${line.name}</span>`)}`}</p>`;
}

function pointOf({ lines, say }, bucket, by) {
  const told = lines.filter(({ of }) => bucket[of]).map(({ of, name }) => `${name} ${say(bucket[of])}`);
  return `${at(bucket, by)} · ${told.join(", ") || "nothing"}`;
}

// The same for who does not see it.
function Table({ figure, buckets, by }) {
  const some = buckets.filter((one) => figure.lines.some(({ of }) => one[of]));
  return html`<div class="sr"><table><caption>${figure.title}</caption>
    <thead><tr><th scope="col">When</th>${figure.lines.map(({ name }) => html`<th scope="col">${name}</th>`)}</tr>
    </thead>
    <tbody>${some.map((one) => html`<tr><th scope="row">${at(one, by)}</th>${figure.lines.map(({ of }) => html`<td>
      ${one[of] ? figure.say(one[of]) : "none"}</td>`)}</tr>`)}</tbody></table></div>`;
}

function Figure({ figure, buckets, by }) {
  const empty = !buckets.some((one) => figure.lines.some(({ of }) => one[of]));
  return html`<figure class="card figure"><figcaption><span class="muted">${figure.title}</span>
      <b>${empty ? "–" : figure.whole(buckets)}</b>
      ${!empty && figure.note && html`<span class="muted">${figure.note(buckets)}</span>`}</figcaption>
    ${empty ? html`<p class="muted none">None in this time</p>`
      : html`<${Plot} figure=${figure} buckets=${buckets} by=${by} />
        <${Table} figure=${figure} buckets=${buckets} by=${by} />`}</figure>`;
}

export const Figures = ({ buckets, by }) => html`<div class="figures">${FIGURES.map((figure) => html`<${Figure}
  key=${figure.title} figure=${figure} buckets=${buckets} by=${by} />`)}</div>`;
