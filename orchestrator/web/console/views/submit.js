// A new task: what to do, where, and how carefully. Typed text is kept until the server took it.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { COUNTS_ONCE, newKey, post } from "../lib/api.js";
import { keep, kept } from "../lib/drafts.js";
import { onHint } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { go, link } from "../lib/route.js";
import { inOrder, oneLine } from "../lib/text.js";
import { Loading, Trouble, useDoing } from "../lib/ui.js";
import { Transfers } from "./transfers.js";

const MAX_CHARS = 100_000;
const WAYS = [
  ["work", "Work", "What the policy asks about waits for a person"],
  ["rehearse", "Rehearse", "On a copy of the computer's files; then it asks once for all of it"],
  ["look", "Only look", "Whatever changes something is denied"],
];
const FORMS = [
  ["runs PROGRAM", "it runs to its end, or 10 s without an error"], ["prints TEXT", "that run prints the text"],
  ["file PATH contains TEXT", "a line of the file has the text"], ["file PATH exists", "the file is there"],
  ["unchanged PATH", "the file or directory has the same bytes as before"],
  ["@COMPUTER …", "where the task has several computers, each form begins with the name of one"],
];
const STATE = { online: "online", away: "away: the task waits for it", frozen: "frozen" };

const EMPTY = {
  prompt: "", computers: [], way: "work", checks: "", model: "", session: "", patient: false, key: "", sent: "",
};

const DRAFT = ["task", "draft"];

// What was typed outlives a reload; it is gone with the tab.
const drafted = () => ({ ...EMPTY, ...kept(...DRAFT, {}) });

// Whether something was typed and not sent.
export const isDrafted = () => ["prompt", "checks"].some((name) => drafted()[name].trim());

export function bodyOf({ prompt, computers, way, checks, model, session, patient }) {
  const lines = checks.split("\n").map((line) => line.trim()).filter(Boolean);
  return {
    prompt, computers, ...(way === "look" && { read_only: true }), ...(way === "rehearse" && { rehearse: true }),
    ...(lines.length && { checks: lines }), ...(model && { model }), ...(session && { session_id: session }),
    ...(patient && { wait_for_model: true }),
  };
}

const MANY = 8;

const named = (one, text) => [one.computer, one.label ?? ""].some((part) => part.toLowerCase().includes(text));

function Computers({ list, chosen, single, onChoose }) {
  const [text, setText] = useState("");
  if (!list) return html`<${Loading} rows=${1} />`;
  if (!list.length) return html`<p
      class="muted">No computer is connected yet. A task without one can still plan and ask.</p>`;
  const order = { online: 0, away: 1, frozen: 2 };
  const sorted = [...list].sort((a, b) => order[a.state] - order[b.state]
    || inOrder(a.computer, b.computer));
  const wanted = text.trim().toLowerCase();
  // The choice stays in sight.
  const shown = sorted.filter((one) => named(one, wanted) || chosen.includes(one.computer));
  return html`${list.length > MANY && html`<input type="search" aria-label="Find a computer"
      placeholder="Find by name or label" value=${text} onInput=${(event) => setText(event.target.value)}
      onKeyDown=${(event) => { if (event.key === "Enter") event.preventDefault(); }} />`}
    <div class="computers">${shown.map((one) => html`<label class="choice" key=${one.computer}>
    <input type=${single ? "radio" : "checkbox"} name="computer" value=${one.computer}
        checked=${chosen.includes(one.computer)} onChange=${(event) => onChoose(one.computer, event.target.checked)} />
    <span><b>${oneLine(one.computer, 64)}</b>
        <small>${one.label && one.label !== one.computer ? `${oneLine(one.label, 40)} · ` : ""}
          ${one.family ? `${oneLine(one.family, 20)} · ` : ""}${STATE[one.state]}</small></span></label>`)}</div>
    ${!shown.length && html`<p class="muted" role="status">None is named so.</p>`}`;
}

// `problem`: why the server took none of them.
const Checks = ({ value, problem, onType }) => html`<label for="checks">What has to hold at the end? <span
      class="muted">(may be empty; one check per line)</span></label>
    <textarea id="checks" class="code" rows="2" spellcheck=${false} value=${value}
        placeholder=${"runs farm.lua\nprints 42 wheat"} aria-invalid=${Boolean(problem)}
          aria-describedby="checks-problem"
        onInput=${(event) => onType(event.target.value)}></textarea>
    <div id="checks-problem"><${Trouble} problem=${problem} /></div>
    <details><summary>The forms of a check</summary>
      <ul class="muted">${FORMS.map(([form, says]) => html`<li><code>${form}</code>: ${says}</li>`)}</ul></details>`;

export function Submit({ onClose }) {
  const [draft, setDraft] = useState(drafted);
  const { value, problem: unread, again } = useReading("/v1/computers");
  const { busy, problem, doing } = useDoing();
  const field = useRef(null);
  useEffect(() => { field.current.focus(); }, []);
  useEffect(() => onHint("computers", again), []);
  const change = (fields) => {
    const next = { ...draft, ...fields };
    setDraft(next);
    keep(...DRAFT, next);
  };
  const single = draft.way === "rehearse";
  const choose = (name, on) => {
    const others = draft.computers.filter((one) => one !== name);
    change({ computers: single ? [name] : on ? [...others, name] : others });
  };
  const turn = (way) => change({ way, computers: way === "rehearse" ? draft.computers.slice(0, 1) : draft.computers });
  const known = new Set(value?.computers.map((one) => one.computer));
  const submit = (event) => {
    event.preventDefault();
    const computers = value ? draft.computers.filter((one) => known.has(one)) : draft.computers;
    const body = bodyOf({ ...draft, computers });
    const said = JSON.stringify(body);
    // The same task sent again has the same key, so that an answer that was lost begins no second one.
    const key = draft.sent === said ? draft.key : newKey();
    change({ key, sent: said });
    doing(async () => {
      const task = await post("/v1/tasks", { ...body, idempotency_key: key });
      keep(...DRAFT);
      onClose();
      go(link("tasks", [task.task_id]));
    });
  };
  const sending = single ? "Copying its files…" : "Sending…";
  const unfit = problem?.details?.field === "checks" ? problem : null;
  const cannot = busy || !draft.prompt.trim() || (single && draft.computers.length !== 1);
  return html`<form class="card submit" onSubmit=${submit} aria-label="New task">
    <label for="prompt">What is to be done?</label>
    <textarea id="prompt" ref=${field} rows="4" maxlength=${MAX_CHARS} value=${draft.prompt}
        onInput=${(event) => change({ prompt: event.target.value })}></textarea>
    <fieldset><legend>On which computers?</legend>
      <${Trouble} problem=${unread} again=${again} />
      ${!unread && html`<${Computers} list=${value?.computers} chosen=${draft.computers} single=${single}
          onChoose=${choose} />`}</fieldset>
    <fieldset><legend>How?</legend><div class="ways">${WAYS.map(([name, title, says]) => html`<label class="choice">
        <input type="radio" name="way" value=${name} checked=${draft.way === name}
      onChange=${() => turn(name)} /><span><b>${title}</b><small>${says}</small></span></label>`)}</div></fieldset>
    <${Checks} value=${draft.checks} problem=${unfit} onType=${(checks) => change({ checks })} />
    <details><summary>Model and session</summary>
      <label for="model">Model <span class="muted">(empty: the server's)</span></label><input id="model"
          maxlength="200" spellcheck=${false} value=${draft.model}
          onInput=${(event) => change({ model: event.target.value })} />
      <label for="session">Session <span class="muted">(joins earlier tasks of yours)</span></label><input id="session"
          maxlength="100" spellcheck=${false} value=${draft.session}
          onInput=${(event) => change({ session: event.target.value })} />
      <label class="choice"><input type="checkbox" checked=${draft.patient}
          onChange=${(event) => change({ patient: event.target.checked })} /><span>
        <b>Wait for the model server as long as it takes</b>
        <small>Otherwise the task fails if the server cannot be reached for some minutes</small></span></label>
    </details>
    <${Trouble} problem=${problem?.undelivered ? { sentence: COUNTS_ONCE } : unfit ? null : problem} />
    ${busy && single && html`<${Transfers} computers=${draft.computers} soon />`}
    <footer><button class="primary"
        disabled=${cannot}>${busy ? sending : problem?.undelivered ? "Send it again" : "Begin"}</button>
      <button type="button" class="quiet" onClick=${onClose}>Close</button></footer>
  </form>`;
}
