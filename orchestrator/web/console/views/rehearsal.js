// What a rehearsal came to: each place that it changed in its copy, and the task that asks for all of it.
import { html, useEffect, useState } from "../lib/html.js";
import { id, post } from "../lib/api.js";
import { onHint } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { go, link } from "../lib/route.js";
import { Text, oneLine } from "../lib/text.js";
import { Dialog, Loading, Trouble, plural, useDoing } from "../lib/ui.js";
import { Places } from "./places.js";

const STANDS = { Failed: "It failed", Canceled: "It was canceled" };

function ApplyDialog({ taskId, shown, onClose }) {
  const { busy, problem, doing } = useDoing();
  const begin = () => doing(async () => {
    const task = await post(`/v1/tasks/${id(taskId)}/rehearsal`);
    onClose();
    go(link("tasks", [task.task_id]));
  });
  const computer = oneLine(shown.computer, 64);
  return html`<${Dialog} title="Apply this to ${computer}?" onClose=${onClose}>
    <p>A task of its own asks for all ${plural(shown.changed, "place")} at once. It passes the policy and waits for
      approval; nothing on ${computer} changes before. What was changed there since is not written over.</p>
    <${Trouble} problem=${problem} />
    <footer><button type="button" class="primary" disabled=${busy} onClick=${begin}>Ask for all of it</button>
      <button type="button" onClick=${onClose}>Not now</button></footer><//>`;
}

// What became of it, in a sentence.
function Told({ task, shown }) {
  const { outcome, changed, computer } = shown;
  const places = plural(changed, "place");
  const name = oneLine(computer, 64);
  if (outcome) {
    return html`<p class="prose">It changed ${places} in its copy of ${name}: <${Text} value=${outcome.told} />.</p>`;
  }
  if (shown.state === "not_applied" && STANDS[task.status]) {
    return html`<p class="prose">${STANDS[task.status]}, so nothing is applied: ${name} is as it was. It had changed
      ${" "}${places} in its copy.</p>`;
  }
  return html`<p class="prose"><${Text} value=${shown.message} /></p>`;
}

// Whether it can be asked for: nobody asks yet, or that came to nothing, or was taken back.
const isOpen = ({ state, outcome }) => state !== "nothing"
  && !(outcome && (outcome.open || (outcome.status === "Completed" && outcome.did && !outcome.undone_by)));

// `onShown` is told the changes whose diffs stand here.
export function Rehearsal({ task, mine, onShown }) {
  const { value: shown, problem, again } = useReading(`/v1/tasks/${id(task.task_id)}/rehearsal`);
  const [asking, setAsking] = useState(false);
  const applied = shown?.applied_by;
  useEffect(() => onHint("tasks", (hint) => [task.task_id, applied].includes(hint.task_id) && again()), [applied]);
  useEffect(() => { if (shown?.changes) onShown(shown.changes); }, [shown]);
  if (!shown) return problem?.undelivered === false ? html`<${Trouble} problem=${problem} again=${again} />` : null;
  if (shown.state === "going_on") return null;
  const left = Object.entries(shown.left_out);
  return html`<section class="part rehearsal" aria-label="What it came to">
    <h2>What it changed on its copy</h2>
    ${shown.state === "ending" ? html`<${Loading} rows=${1} label="Its copy is looked at" />` : html`
      <div class="note ${shown.outcome?.did ? "good" : ""}"><${Told} task=${task} shown=${shown} />
        ${(applied || (mine && isOpen(shown))) && html`<div class="actions">
          ${applied && html`<a class="button" href=${link("tasks", [applied])}>The task that asks for it</a>`}
          ${mine && isOpen(shown) && html`<button type="button" class="primary"
              onClick=${() => setAsking(true)}>Apply this to the real computer…</button>`}</div>`}</div>
      <${Places} changes=${shown.changes} left=${shown.changed - shown.changes.length} label="Places it changed" />
      ${left.length > 0 && html`<details><summary>Not in its copy: ${plural(left.length, "path")}</summary>
        <ul class="left-out">${left.map(([path, why]) => html`<li><code><${Text} value=${path} /></code>
          ${" "}<span class="muted"><${Text} value=${why} /></span></li>`)}</ul></details>`}`}
    ${asking && html`<${ApplyDialog} taskId=${task.task_id} shown=${shown} onClose=${() => setAsking(false)} />`}
  </section>`;
}
