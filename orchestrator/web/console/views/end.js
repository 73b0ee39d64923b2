// How a task ended, at the top of its page: the outcome, the next steps, what was said, what the journal shows, and the
// places that it changed, each with the way to its diff.
import { html, useEffect } from "../lib/html.js";
import { id } from "../lib/api.js";
import { onHint } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { Text } from "../lib/text.js";
import { Status, Trouble } from "../lib/ui.js";
import { Places } from "./places.js";
import { isLeft } from "./undo.js";

// A line of the report about a file, as orchestrator/core/evidence/report.py writes it: a word, the place, counts.
const OF_FILE = /^\w+ (.+?)(?: {2}\+(\d+) -(\d+))?$/;
const LOOKS = { Completed: "good", Unverified: "warn", Canceled: "" };

// An undo has no model.
const modelSays = (task) => !task.undoes && task.result?.verified !== false
  && ["final", "unverified", "answered"].includes(task.status_reason);

// The lines of the report that are not about a listed change, and the lines added and removed at each of those.
function sorted(report, changes) {
  const names = new Map(changes.flatMap((one) => [[one.path, one], [one.place, one]]));
  const counts = new Map();
  const rest = report.filter((line) => {
    const [, name, added, removed] = OF_FILE.exec(line) ?? [];
    const change = names.get(name);
    if (change && added !== undefined) counts.set(change, { added, removed });
    return !change;
  });
  return { rest, counts };
}

// The number of the step on the page whose call changed a place last; 0: none of them did.
const stepOf = (journal, { computer, path }) => 1 + journal.steps.findLastIndex((step) => step.calls.some((call) =>
  call.state === "done" && call.computer === computer
  && [call.args.path, call.args.to].some((one) => String(one ?? "").replace(/^\/+/, "") === path)));

const Counts = ({ added, removed }) => html` <span class="plus">+${added}</span>
  ${" "}<span class="minus">−${removed}</span>`;

// The places that it changed. The diffs stand in the steps, and are not shown a second time.
function Changes({ changes, counts, journal, onStep }) {
  const shown = changes.map((one) => {
    const step = stepOf(journal, one);
    return { ...one, more: html`${counts.has(one) && html`<${Counts} ...${counts.get(one)} />`}
      ${step > 0 && html`${" "}<button type="button" class="link"
          onClick=${() => onStep(step)}>Show step ${step}</button>`}` };
  });
  return html`<section aria-label="What it changed"><h2>What it changed</h2>
    <${Places} changes=${shown} label="Places it changed" /></section>`;
}

// `children`: the next steps. `onStep`: shows a step by its number.
export function End({ task, journal, onStep, children }) {
  // The changes of a rehearsal on its copy are shown elsewhere, with the way to apply them.
  const { value, problem, again } = useReading(task.rehearses ? null : `/v1/tasks/${id(task.task_id)}/changes`);
  useEffect(() => onHint("tasks", (hint) => hint.task_id === task.task_id && again()), []);
  const changes = value?.changes ?? [];
  const { message = "", verified, report = [] } = task.result ?? journal.ended ?? {};
  const { rest, counts } = sorted(report, changes);
  const outcome = task.undo?.outcome;
  const status = verified === false && task.status === "Completed" ? "Unverified" : task.status;
  return html`<section class="end card ${LOOKS[status] ?? "bad"}" aria-label="How it ended">
    <div class="line"><${Status} status=${status} />${task.pinned && html`<span class="muted">kept</span>`}
      ${children}</div>
    ${message && html`<p class="prose">${modelSays(task) && html`<span class="label">The model says</span>`}<${Text}
        value=${message} /></p>`}
    ${outcome && html`<p class="prose">What it changed was <${Text} value=${outcome.told} /> (<a
        href=${link("tasks", [outcome.task_id])}>the task that did it</a>).${outcome.did && !isLeft(task.undo)
          && " To have its changes again, undo that task."}</p>`}
    ${rest.length > 0 && html`<ul class="report" aria-label="What the journal shows">
      ${rest.map((line) => html`<li><${Text} value=${line} /></li>`)}</ul>`}
    ${changes.length > 0 && html`<${Changes} changes=${changes} counts=${counts} journal=${journal}
        onStep=${onStep} />`}
    <${Trouble} problem=${problem?.undelivered === false ? problem : null} again=${again} /></section>`;
}
