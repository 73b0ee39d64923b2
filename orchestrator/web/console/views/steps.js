// The steps of a task as they happen.
import { html, useEffect, useRef } from "../lib/html.js";
import { short } from "../lib/called.js";
import { Code } from "../lib/code.js";
import { Diff, unified } from "../lib/diff.js";
import { isLua } from "../lib/lua.js";
import { Text, oneLine } from "../lib/text.js";
import { Pre, pretty, where } from "../lib/ui.js";
import { editedParts } from "./call.js";

const LOOK = {
  done: "good", approved: "good", allowed: "", runs: "busy", asks: "warn", "asks you": "warn", failed: "bad",
  denied: "bad", rejected: "bad", "outcome unknown": "warn", expired: "bad",
};
const SAID = {
  "to be asked": "about to be asked", asks: "waits for a decision", "asks you": "asks a person", runs: "running",
  allowed: "allowed",
  denied: "denied by the policy", stale: "shown anew", superseded: "not asked about",
};
// Reasons that are a word for programs.
const REASON = {
  plan_mode: "This task only looks, or the policy says so for all: whatever changes something is denied.",
};
const NOTE = {
  refused: "The reply was not taken. The model was told", question: "It asks", answer: "Answered", status: "It says",
  cancel: "To be canceled", limit: "A limit was reached", ended: "",
  awaits: "Waiting for the model server at", failing: "It failed and is tried again",
};

// Tools whose words stand there as a note.
const TOLD = new Set(["ask_user", "send_status"]);

// What a program writes, the end of it in sight.
function Output({ text, running }) {
  const ref = useRef(null);
  useEffect(() => {
    if (running) ref.current.scrollTop = ref.current.scrollHeight;
  }, [text, running]);
  return html`<pre class="text output" tabindex="0" role="group" aria-label="Output" ref=${ref}><${Text}
      value=${text} /></pre>`;
}

function Step({ step, number, open, placeOf }) {
  const explanation = step.explanation || step.writing;
  const quiet = !explanation && !step.said && step.asked && !step.calls.length && open;
  return html`<li class="step" data-step=${number} tabindex="-1">
    <span class="number" aria-label="Step ${number}">${number}</span>
    <div class="body">
      ${quiet && html`<p class="muted thinking">The model is writing…</p>`}
      ${explanation && html`<p class="prose"><${Text} value=${explanation} />${!step.explanation && html`<span
          class="caret" aria-hidden="true"></span>`}</p>`}
      ${step.said && html`<p class="prose"><${Text} value=${step.said} /></p>`}
      ${step.calls.map((call) => html`<${TaskCall} key=${call.call_id} call=${call} place=${placeOf(call)} />`)}
      ${step.notes.map((note) => html`<div
          class="note ${["refused", "limit", "awaits", "failing"].includes(note.kind) ? "warn" : ""}"><p class="prose">
        ${NOTE[note.kind] && html`<b>${NOTE[note.kind]}${note.by ? ` by ${oneLine(note.by, 40)}` : ""}${
            note.kind === "awaits" ? "" : ":"} </b>`}<${Text} value=${note.text} /></p></div>`)}
    </div></li>`;
}

// What a person changed of a call before it ran, and why.
function Edit({ call }) {
  return html`<p class="prose"><b>Edited by ${oneLine(call.editedBy, 40) || "a person"}</b>${call.editReason
    ? html`: <${Text} value=${call.editReason} />` : "."}</p>
    ${editedParts(call.original, call.args).map(([name, before, after]) => html`<${Diff} label=${oneLine(name)}
        lua=${isLua(String(call.args.path ?? ""))} diff=${unified(before, after)} />`)}`;
}

// What it would do or did: its diff, or its arguments; or where that stands.
function What({ call, place }) {
  const path = String(call.args.path ?? "");
  const diff = call.observed?.diff;
  if (place) {
    return html`<p class="muted">${place.text} <button type="button" class="link"
        onClick=${place.onClick}>Show it</button></p>`;
  }
  if (diff) return html`<${Diff} diff=${diff} lua=${isLua(path)} label=${oneLine(path, 80) || "Changes"} />`;
  if (TOLD.has(call.tool) || !Object.keys(call.args).length) return null;
  return html`<details><summary>Arguments</summary><${Code} text=${pretty(call.args)} label="" /></details>`;
}

function TaskCall({ call, place }) {
  const { on } = short(call);
  const decided = call.decidedBy && ["approved", "rejected"].includes(call.state);
  const by = decided ? ` by ${oneLine(call.decidedBy, 40)}` : "";
  const said = `${SAID[call.state] ?? call.state}${by}`;
  return html`<div class="tool" data-call=${call.call_id}>
    <p class="line"><code class="tool-name">${oneLine(call.tool)}</code> <span class="muted">${where(call.computer)}
        </span>${on && html` <code class="on">${on}</code>`}
      <span class="badge ${LOOK[call.state] ?? ""}">${said}</span></p>
    ${call.original && html`<${Edit} call=${call} />`}
    ${call.reason && html`<p class="muted prose">Reason: <${Text} value=${call.reason} /></p>`}
    ${call.answer && html`<p class="prose"><b>Told in its place: </b><${Text} value=${call.answer} /></p>`}
    ${call.verdict && call.state === "denied" && html`<p class="muted prose"><${Text}
        value=${REASON[call.verdict.reason] ?? call.verdict.reason} /></p>`}
    <${What} call=${call} place=${place} />
    ${call.output && html`<${Output} text=${call.output} running=${call.state === "runs"} />`}
    ${call.result && html`<details open=${call.state === "failed" || (!call.output && call.result.length < 600)}>
        <summary>Result</summary><${Pre} value=${call.result} label="Result" /></details>`}
    ${call.changed?.length > 0 && html`<p
        class="muted prose">Changed meanwhile: ${call.changed.map((one) => html`<code>${oneLine(one, 80)}</code> `)}
        </p>`}
  </div>`;
}

// Where a diff that stands in an earlier step does: [call id, number of that step] of each call that has it again.
function repeats(steps) {
  const first = new Map(), again = new Map();
  steps.forEach((step, at) => step.calls.forEach((call) => {
    const diff = call.observed?.diff;
    if (!diff) return;
    const key = `${call.computer} ${diff}`;
    if (first.has(key)) again.set(call.call_id, first.get(key));
    else first.set(key, at + 1);
  }));
  return again;
}

const AT_ONCE = 100;

// `placeOf`: {text, onClick} where what a call does stands elsewhere on the page. `onStep`: shows a step by its number.
export function Steps({ journal, all, onAll, onStep, placeOf }) {
  const again = repeats(journal.steps);
  const place = (call) => placeOf(call) ?? (again.has(call.call_id)
    ? { text: `It is the same diff as in step ${again.get(call.call_id)}.`,
      onClick: () => onStep(again.get(call.call_id)) }
    : null);
  const from = all ? 0 : Math.max(0, journal.steps.length - AT_ONCE);
  return html`${from > 0 && html`<button type="button" class="more"
      onClick=${onAll}>Show the ${from} steps before</button>`}
    <ol class="steps" aria-label="Steps">${journal.steps.slice(from).map((step, i) => html`<${Step} key=${from + i}
        step=${step} number=${from + i + 1} placeOf=${place}
      open=${!journal.ended && from + i === journal.steps.length - 1} />`)}</ol>`;
}
