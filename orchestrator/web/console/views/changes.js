// The changes of an ended task, place by place, with the diffs that its journal has.
import { html, useEffect } from "../lib/html.js";
import { id } from "../lib/api.js";
import { onHint } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { Trouble } from "../lib/ui.js";
import { Places } from "./places.js";

// The diff of the one call that changed a place; of several none is the whole.
function diffOf(journal, { computer, path }) {
  const calls = journal.steps.flatMap((step) => step.calls).filter((call) => call.state === "done"
    && call.computer === computer && String(call.args.path ?? "").replace(/^\/+/, "") === path);
  return calls.length === 1 ? calls[0].observed?.diff ?? "" : "";
}

export function Changes({ task, journal }) {
  const { value, problem, again } = useReading(`/v1/tasks/${id(task.task_id)}/changes`);
  useEffect(() => onHint("tasks", (hint) => hint.task_id === task.task_id && again()), []);
  if (!value) return problem?.undelivered === false ? html`<${Trouble} problem=${problem} again=${again} />` : null;
  if (!value.changes.length) return null;
  const changes = value.changes.map((one) => ({
    ...one, diff: diffOf(journal, one), more: html` <span class="muted">step ${one.step}</span>`,
  }));
  return html`<section class="part" aria-label="What it changed"><h2>What it changed</h2>
    <${Places} changes=${changes} folded label="Places it changed" /></section>`;
}
