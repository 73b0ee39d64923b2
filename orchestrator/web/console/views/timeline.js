// What tasks did when, a line for each: thinking, waiting for a person, running on a computer.
import { html, useEffect, useState } from "../lib/html.js";
import { id, now } from "../lib/api.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { oneLine } from "../lib/text.js";
import { Status, span, statusOf, useSecond } from "../lib/ui.js";

const WIDE = 1000;
const DOES = [["thinking", "Thinking"], ["waiting", "Waiting for a person"], ["running", "Running a tool"],
  ["queued", "Queued"]];
// The heights differ as well as the colours: [top, height] of 20.
const SHAPE = { thinking: [5, 10], waiting: [2, 16], running: [2, 16], queued: [9, 2] };
export const SPANS = [[300, "5 minutes"], [3600, "Hour"], [86_400, "Day"]];
const TICKS = 4;
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
// The newest tasks that the first span has to hold.
const NEWEST = 6;

const begin = (task) => Date.parse(task.created_at);

// The shortest span that holds the newest tasks whole.
export function spanOf(tasks, at = now()) {
  const oldest = Math.min(...tasks.slice(0, NEWEST).map(begin));
  return (SPANS.find(([seconds]) => at - oldest <= seconds * 1000) ?? SPANS.at(-1))[0];
}

// What is to be drawn between two times, as {doing, x, width} in parts of WIDE; one that cannot be seen is left out.
function barsOf(task, from, until) {
  const bars = [];
  for (const { doing, since, until: end } of task.segments) {
    const left = Math.max(from, Date.parse(since)), right = Math.min(until, end ? Date.parse(end) : until);
    if (right < left) continue;
    const x = ((left - from) / (until - from)) * WIDE;
    const width = ((right - left) / (until - from)) * WIDE;
    const before = bars.at(-1);
    if (width < 1 && before && x - before.x < 2 && doing !== "waiting") before.width = Math.max(before.width, 2);
    else bars.push({ doing, x, width: Math.max(2, width) });
  }
  return bars;
}

// How long a task did each thing, in words.
function summary(task, until) {
  const sums = {};
  for (const { doing, since, until: end } of task.segments) {
    sums[doing] = (sums[doing] ?? 0) + (end ? Date.parse(end) : until) - Date.parse(since);
  }
  return DOES.filter(([doing]) => sums[doing] >= 1000)
    .map(([doing, name]) => `${name.toLowerCase()} ${span(sums[doing] / 1000)}`).join(", ");
}

const Grid = () => html`${Array.from({ length: TICKS + 1 }, (_, at) => html`<line class="grid-line" y1="0" y2="20"
    x1=${(at / TICKS) * WIDE} x2=${(at / TICKS) * WIDE} vector-effect="non-scaling-stroke" />`)}`;

export const Bars = ({ task, from, until }) => html`<svg class="gantt-bars" viewBox="0 0 ${WIDE} 20"
    preserveAspectRatio="none" aria-hidden="true" focusable="false"><${Grid} />
  ${barsOf(task, from, until).map(({ doing, x, width }) => html`<rect class="does-${doing}" x=${x} width=${width}
      y=${SHAPE[doing][0]} height=${SHAPE[doing][1]} />`)}</svg>`;

function Row({ task, from, until }) {
  const told = summary(task, until);
  const seconds = ((task.ended_at ? Date.parse(task.ended_at) : until) - begin(task)) / 1000;
  return html`<li><a class="gantt-row" href=${link("tasks", [task.task_id])} title=${told}>
    <span class="gantt-task"><${Status} status=${statusOf(task)} />
      <span class="gantt-title">${oneLine(task.prompt, 80)}</span></span>
    <${Bars} task=${task} from=${from} until=${until} />
    <span class="gantt-long muted"><span class="sr">in all </span>${span(seconds)}
      <span class="sr">${told && `: ${told}`}</span></span></a></li>`;
}

export const Legend = () => html`<ul class="legend" aria-label="Colours">${DOES.map(([doing, name]) => html`<li>
  <i class="swatch does-${doing}" aria-hidden="true"></i>${name}</li>`)}</ul>`;

export function Axis({ from, until }) {
  return html`<div class="gantt-axis muted" aria-hidden="true"><span></span><span class="gantt-ticks">
    ${Array.from({ length: TICKS + 1 }, (_, at) => html`<span>${at === TICKS ? "now"
      : CLOCK.format(new Date(from + ((until - from) * at) / TICKS))}</span>`)}</span><span></span></div>`;
}

// What one task did when, from its beginning to its end or to now.
export function OwnTimeline({ task }) {
  useSecond();
  const told = useReading(`/v1/tasks/${id(task.task_id)}/timeline`);
  useEffect(told.again, [task.version]);
  const own = told.value;
  const from = own ? begin(own) : 0, until = own?.ended_at ? Date.parse(own.ended_at) : now();
  if (!own || until - from < 1000) return null;
  return html`<figure class="gantt own"><${Bars} task=${own} from=${from} until=${until} />
    <figcaption><${Legend} /><span class="muted small">in ${span((until - from) / 1000)}<span
      class="sr">: ${summary(own, until)}</span></span></figcaption></figure>`;
}

export function Timeline({ tasks }) {
  useSecond();
  const [chosen, choose] = useState(0);
  const seconds = chosen || spanOf(tasks);
  const until = now(), from = until - seconds * 1000;
  const shown = tasks.filter((task) => !task.ended_at || Date.parse(task.ended_at) >= from);
  return html`<div class="gantt card">
    <div class="gantt-head"><${Legend} />
      <div class="chips" role="group" aria-label="How far back">${SPANS.map(([each, name]) => html`<button type="button"
        class="chip" aria-pressed=${each === seconds ? "true" : "false"} onClick=${() => choose(each)}>${name}
        </button>`)}</div></div>
    ${shown.length > 0
      ? html`<ul class="gantt-rows" aria-label="Tasks over time">${shown.map((task) => html`<${Row} key=${task.task_id}
          task=${task} from=${from} until=${until} />`)}</ul><${Axis} from=${from} until=${until} />`
      : html`<p class="muted none">No task in this time.</p>`}
  </div>`;
}
