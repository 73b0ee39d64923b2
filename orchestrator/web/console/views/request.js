// A whole request, and the possible answers. An approval is for the calls on the page, by their digests.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/html.js";
import { now } from "../lib/api.js";
import {
  askedAnew, closedMeanwhile, decide, decisionsOn, extend, isGrave, outcomes, tell, whole,
} from "../lib/decide.js";
import { link } from "../lib/route.js";
import { live } from "../lib/live.js";
import { useStore } from "../lib/store.js";
import { oneLine } from "../lib/text.js";
import { Ago, Details, Facts, Left, Long, Pre, Risk, Safe, Trouble, plural, pretty, useArriving,
  useDoing, useFocusKept, where } from "../lib/ui.js";
import { saw } from "../lib/unseen.js";
import { Call, CallDetails, longParts } from "./call.js";
import { EditDialog } from "./edit.js";
import { GrantDialog } from "./grant.js";
import { RejectDialog, RespondDialog } from "./saying.js";
import { Team } from "./team.js";

const THEN = { stay_paused: "the task waits", continue: "the task goes on without it", cancel: "the task is canceled" };
const SETTLE_MS = 500;

// A request has to be on the page for a moment before it can be approved: a click or key meant for what was
// there before counts for nothing.
export function useSettled(mark) {
  const [settled, set] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => set(mark), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [mark]);
  return settled === mark;
}

// The request as it is to be shown: what was fetched whole, as long as nothing of it changed since.
function useWhole(request) {
  const mark = useMemo(() => JSON.stringify(request), [request]);
  const [fetched, set] = useState({ mark: "", request: null });
  const shown = fetched.mark === mark ? fetched.request : request;
  const whichever = shown === request ? mark : `whole ${mark}`;
  return { shown, mark: whichever, fetch: async () => set({ mark, request: await whole(request.request_id) }) };
}

// A note that the decided call did not run, and is asked for again.
export const Anew = ({ request }) => request && html`<div class="note warn" role="status">
  <p>${request.reason === "outcome_unknown"
    ? "Nobody knows whether it ran."
    : "It did not run as it was shown: what it is about is another now. It is asked again."}</p>
  <a class="button" href=${link("approvals", [request.request_id])}>Show it</a></div>`;

// `about`: what was decided, where that does not stand beside it.
export function Outcome({ outcome, about, children }) {
  useLayoutEffect(() => { if (outcome) saw(outcome); }, [outcome?.state, outcome?.text]);
  if (!outcome) return null;
  const look = { done: "good", refused: "bad", unsent: "warn", sending: "" }[outcome.state];
  return html`<div class="note ${look}" role=${outcome.state === "sending" ? "status" : "alert"} tabindex="-1"
      data-outcome=${outcome.state}>
    <p>${about && html`<b>${about}:</b> `}${outcome.text}</p>${outcome.again && html`<button type="button"
        onClick=${outcome.again}>Send it again</button>`}${children}</div>`;
}

// `within`: on the page of its task, which says the goal and what the model writes.
function About({ request, within }) {
  const byModel = request.informational.includes("explanation");
  return html`
    ${!within && html`<p class="goal"><${Long} value=${request.goal} /></p>
      ${request.explanation && html`<blockquote><span class="label">${byModel ? "The model writes" : "Planned"}</span>
        <${Long} value=${request.explanation} /></blockquote>`}`}
    <p class="about muted">asked by ${oneLine(request.requester, 64)}
      ${request.asked_at && ` at computer ${oneLine(request.asked_at, 64)} in the game`} <${Ago}
        at=${request.created_at} />
      ${request.expires_at && html` · <${Left} until=${request.expires_at} />; then ${THEN[request.on_timeout]}`}
      ${!within && html` · <a href=${link("tasks", [request.task_id])}>See the task</a>`}</p>
    ${request.redacted && html`<div class="note warn"><p>Secrets stand here as <span
        class="secret">[redacted …]</span>: what runs has them.</p></div>`}
    ${request.context.length > 0 && html`<details class="siblings">
        <summary>Also in this step, not asked about: ${plural(request.context.length, "call")}</summary>
      <ul>${request.context.map((one) => html`<li><code>${oneLine(one.tool)}</code> ${where(one.computer)}: <span
          class="muted">${one.state}</span>
        <${Pre} value=${pretty(one.args)} label="Arguments" />
        ${one.result !== null && html`<${Pre} value=${one.result} label="Result" />`}</li>`)}</ul></details>`}`;
}

// The reason against an approval; empty: none. `seen`: the text of each long part that was whole on the page,
// since a part that was cut and opened is another text than the whole.
function obstacle(calls, seen, settled) {
  if (calls.some((call) => call.truncated)) return "Not all of it is shown: show the whole first.";
  if (calls.some((call) => longParts(call).some(([part, text]) => seen.get(`${call.call_id} ${part}`) !== text))) {
    return "Not all of it is shown: open the rest of each text first.";
  }
  return settled ? "" : "It has just changed.";
}

const UNKNOWN = [
  ["check", "Check again", "Look at the computer once more"],
  ["mark_done", "It was done", "The model is told that a person looked, and that it was carried out"],
  ["mark_failed", "It was not done", "The model is told that a person looked, and that it failed"],
  ["retry", "Ask anew", "As a new call, with a new approval"],
];

// The action on exactly these calls that is on its way; empty: none.
const sendsOf = (outcome, calls) => (outcome?.state === "sending" && outcome.calls?.length === calls.length
  && calls.every((call) => outcome.calls.includes(call.call_id)) ? outcome.action : "");

// The buttons of a request (all its calls) or of one call of several. `sends`: the action that is on its way, which its
// button says at once.
function Actions({ request, calls, obstacleNow, open, send, sends, busy, children }) {
  const [others, setOthers] = useState(false);
  const allowed = new Set(request.allowed_decisions);
  const one = calls.length === 1 ? calls[0] : null;
  const says = (action, name) => (sends === action ? "Sending…" : name);
  if (!allowed.has("approve")) {
    return html`<div
        class="actions">${UNKNOWN.filter(([action]) => allowed.has(action)).map(([action, name, title], i) => html`
      <button type="button" class=${i ? "" : "primary"} title=${title} disabled=${busy}
          onClick=${() => send(decisionsOn(calls, action))}>${says(action, name)}</button>`)}${children}</div>`;
  }
  const cannot = busy || Boolean(obstacleNow);
  const all = calls.length > 1 ? ` all ${calls.length}` : "";
  return html`<div class="actions ${others ? "all" : ""}">
    <button type="button" class="primary" data-key="a" aria-disabled=${cannot}
        title=${obstacleNow || "Let it run exactly as it is shown"}
      onClick=${() => !cannot && send(decisionsOn(calls, "approve"))}>${says("approve", `Approve${all}`)}</button>
    <button type="button" class="danger" data-key="r" disabled=${busy}
        onClick=${() => open("reject", calls)}>${says("reject", `Reject${all}`)}</button>
    ${one && html`
      <button type="button" data-key="e" disabled=${cannot}
          onClick=${() => open("edit", calls)}>${says("edit", "Edit")}</button>
      ${allowed.has("respond") && html`<button type="button" class="quiet other" disabled=${busy}
          onClick=${() => open("respond", calls)}>${says("respond", "Respond")}</button>`}
      ${one.evaluation.risk !== "critical" && !(request.team?.need > 1) && html`<button type="button"
          class="quiet other" disabled=${cannot} data-key="g" title="Approve it, and what is like it from now on"
          onClick=${() => open("grant", calls)}>Approve always…</button>`}`}
    ${children}
    ${!others && html`<button type="button" class="quiet only-narrow"
        onClick=${() => setOthers(true)}>More…</button>`}
  </div>`;
}

// A change of the request, or of the server, while a dialog is open before it.
function Meanwhile({ away, closed }) {
  const said = closed || (away && "The server is away. What you typed stays.");
  return html`<div role="status">${said && html`<p class="note warn">${said}</p>`}</div>`;
}

const DIALOGS = { edit: EditDialog, reject: RejectDialog, respond: RespondDialog, grant: GrantDialog };

// Decisions after which nothing of a request is left to decide.
const LAST = new Set(["approve", "edit", "reject", "respond"]);

// `bare`: without its buttons, where several are decided together; `onReady` is told whether it may be approved.
// `onSent`: told when a decision on all of it is on its way. `within`: on the page of its task. `arrives`: it came by
// itself, after another.
export function Request({
  request: given, keys = false, bare = false, within = false, arrives = false, onReady, onSent,
}) {
  const state = useStore(live);
  const outcome = useStore(outcomes).get(given.request_id);
  const { shown: request, mark, fetch } = useWhole(given);
  const [seen, setSeen] = useState(new Map());
  const [dialog, setDialog] = useState(null);
  const { busy, problem, doing } = useDoing();
  const settled = useSettled(mark);
  const open = state.requests.some((one) => one.request_id === given.request_id);
  const how = state.closed.get(given.request_id);
  const calls = request.tool_calls;
  const obstacleNow = obstacle(calls, seen, settled);
  const sending = outcome?.state === "sending" || busy;
  const box = useRef(null);
  useFocusKept(box, [outcome?.state, open, dialog]);
  useArriving(box, arrives);
  const decidable = open && !bare;
  useEffect(() => onReady?.(given.request_id, open && !obstacleNow ? request : null), [request, obstacleNow, open]);
  useEffect(() => {
    if (!keys || !decidable) return undefined;
    const pressed = (event) => {
      if (isNoKey(event)) return;
      const buttons = [...document.querySelectorAll(".request > .bar [data-key]")];
      const button = buttons.find((one) => one.dataset.key === event.key);
      if (!button) return;
      event.preventDefault();
      // Where a dialog gives the focus back to.
      button.focus({ preventScroll: true });
      button.click();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [keys, decidable]);
  const wholeNow = (call) => (part, text) => setSeen((before) => new Map(before).set(`${call.call_id} ${part}`, text));
  const show = (name, about) => {
    tell(given.request_id, null);
    setDialog({ name, calls: about });
  };
  const send = (decisions) => {
    decide(request, decisions);
    if (decisions.length === calls.length && LAST.has(decisions[0].action)) onSent?.(given.request_id);
  };
  // The button says that it is on its way.
  const quiet = decidable && outcome?.state === "sending";
  const Shown = dialog && DIALOGS[dialog.name];
  return html`<article class="request ${isGrave(request.risk) ? "grave" : ""}" ref=${box}
      data-request=${given.request_id}
      data-settled=${settled}>
    <header>
      <h2 tabindex="-1">${request.reason === "outcome_unknown" ? "Nobody knows whether this ran" : "May this run?"}</h2>
      <${Risk} risk=${request.risk} />
    </header>
    ${request.reason === "outcome_unknown" && html`<p
        class="muted">The connection ended while it ran. Look at the computer, then say what you found.</p>`}
    <${Safe} raw=${request}>
      <${About} request=${request} within=${within} />
      <${Team} request=${request} open=${decidable} />
      ${calls.map((call, i) => html`<${Call} key=${call.call_id} call=${call}
          number=${calls.length > 1 ? `${i + 1} of ${calls.length}` : ""} onWhole=${wholeNow(call)}>
        ${decidable && calls.length > 1 && html`<${Actions} request=${request} calls=${[call]}
            obstacleNow=${obstacle([call], seen, settled)} open=${show} send=${send}
            sends=${sendsOf(outcome, [call])} busy=${sending} />`}
      <//>`)}
      <${Details}>
        <${Facts} rows=${[
          ["Roles", request.requester_roles.map((one) => oneLine(one, 40)).join(", ") || "none"],
          ["Task", html`<code>${oneLine(request.task_id)}</code>`],
          ["Request", html`<code>${oneLine(request.request_id)}</code>`]]} />
        ${calls.map((call, i) => html`<${CallDetails} key=${call.call_id} call=${call}
            number=${calls.length > 1 ? `${i + 1} of ${calls.length}` : ""} />`)}
        <h4>All of it as JSON</h4><${Pre} value=${JSON.stringify(request, null, 2)} label="All of it" /><//>
    <//>
    <div class="bar">
      ${quiet && html`<p class="sr" role="status">${outcome.text}</p>`}
      <${Outcome} outcome=${quiet ? null : outcome}>
        ${!open && outcome && outcome.state !== "sending" && html`<a class="button"
            href=${link("tasks", [given.task_id])}>See the task</a>`}
      <//>
      <${Anew} request=${!open && askedAnew(given, state.requests)} />
      ${!open && !outcome && html`<div class="note" role="status"><p>${closedMeanwhile(how)}</p><a class="button"
          href=${link("tasks", [given.task_id])}>See the task</a></div>`}
      ${!open && outcome?.state === "unsent" && html`<p class="muted">${closedMeanwhile(how)}</p>`}
      <${Trouble} problem=${problem} />
      ${open && calls.some((call) => call.truncated) && html`<button type="button" class="primary" disabled=${busy}
          onClick=${() => doing(fetch)}>Show the whole</button>`}
      ${decidable && html`<${Actions} request=${request} calls=${calls} obstacleNow=${obstacleNow} open=${show}
          send=${send} sends=${sendsOf(outcome, calls)} busy=${sending}>
          ${request.expires_at && html`<button type="button" class="quiet other" disabled=${sending}
              onClick=${() => doing(() => extend(request, now()))}>An hour more</button>`}<//>
        ${obstacleNow && settled && html`<p class="muted" role="status">${obstacleNow}</p>`}`}
    </div>
    ${Shown && html`<${Shown} request=${request} calls=${dialog.calls} onClose=${() => setDialog(null)}
      note=${html`<${Meanwhile} away=${state.state === "away"} closed=${!open && closedMeanwhile(how)} />`}
      onDecide=${(decisions) => { setDialog(null); send(decisions); }} />`}
  </article>`;
}

// Whether a pressed key is not for the page: it is held down, belongs to a text, or a dialog is open before the page.
export const isNoKey = (event) =>
  event.defaultPrevented || event.repeat || event.ctrlKey || event.metaKey || event.altKey
  || Boolean(event.target.closest?.("input, textarea, select, [contenteditable]"))
  || document.querySelector("dialog[open]") !== null;
