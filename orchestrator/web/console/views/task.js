// One task: how it ended or its state, its steps as they happen, and what it waits for.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { id, post } from "../lib/api.js";
import { askedAnew, outcomes } from "../lib/decide.js";
import { isSame } from "../lib/diff.js";
import { useJournal } from "../lib/follow.js";
import { live, onHint } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { may, session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Text, inOrder, oneLine } from "../lib/text.js";
import { useTitle } from "../lib/title.js";
import { Ago, Details, Dialog, Facts, Icon, Loading, NotThere, STATUS, Safe, Status, Trouble, plural, span, startOf,
  statusOf, useDoing, useFocusKept, useSecond } from "../lib/ui.js";
import { End } from "./end.js";
import { Question } from "./question.js";
import { Rehearsal } from "./rehearsal.js";
import { Anew, Outcome, Request } from "./request.js";
import { WaitsFor } from "./team.js";
import { Steps } from "./steps.js";
import { OwnTimeline } from "./timeline.js";
import { Transfers } from "./transfers.js";
import { UndoDialog, isLeft } from "./undo.js";

const OVER = new Set(["Completed", "Failed", "Canceled"]);
const MAX_REASON = 2000;

function CancelDialog({ taskId, onClose, onDone }) {
  const [reason, setReason] = useState("");
  const { busy, problem, doing } = useDoing();
  const submit = (event) => {
    event.preventDefault();
    doing(async () => {
      await post(`/v1/tasks/${id(taskId)}/cancel`, { reason });
      onDone();
      onClose();
    });
  };
  return html`<${Dialog} title="Cancel this task?" onClose=${onClose}><form onSubmit=${submit}>
    <p class="muted">What runs is asked to stop; what waits for a decision does not run. What it changed stays, and can
      be put back.</p>
    <label for="why">Reason <span class="muted">(may be empty)</span></label>
    <textarea id="why" rows="2" maxlength=${MAX_REASON} value=${reason}
        onInput=${(event) => setReason(event.target.value)}></textarea>
    <${Trouble} problem=${problem} />
    <footer><button class="danger solid" disabled=${busy}>Cancel the task</button><button type="button"
        onClick=${onClose}>Let it go on</button></footer>
  </form><//>`;
}

// Time counts while it runs, as the server counts it.
function Active({ task, readAt }) {
  useSecond();
  const seconds = task.active_s + (task.status === "Running" ? (Date.now() - readAt) / 1000 : 0);
  return html`${seconds < 10 ? `${seconds.toFixed(1)} s` : span(seconds)}
    ${task.max_wall_s > 0 && ` of ${span(task.max_wall_s)}`}`;
}

const NUMBER = new Intl.NumberFormat();
const of = (used, most) => html`${NUMBER.format(used)}${most > 0 && html`<span class="muted"> of ${NUMBER.format(most)}
    </span>`}`;

// After a decision here, the next request comes in sight beside the answer.
function useNextInSight(waiting) {
  const before = useRef(waiting);
  useEffect(() => {
    if (!waiting || waiting === before.current) return;
    if (outcomes.value.has(before.current)) document.querySelector(".said").scrollIntoView({ block: "start" });
    before.current = waiting;
  }, [waiting]);
}

const showWaiting = () => {
  const box = document.querySelector(".waits");
  box.scrollIntoView({ block: "start" });
  box.focus({ preventScroll: true });
};

// What can be done with it now.
function NextSteps({ task, onAsk, again }) {
  const { busy, problem, doing } = useDoing();
  const over = OVER.has(task.status);
  const pin = () => doing(async () => {
    await post(`/v1/tasks/${id(task.task_id)}/${task.pinned ? "unpin" : "pin"}`);
    again();
  });
  return html`<div class="actions push">
    ${!over && html`<button type="button" class="danger" onClick=${() => onAsk("cancel")}>Cancel</button>`}
    ${over && task.undo && isLeft(task.undo) && html`<button type="button"
        onClick=${() => onAsk("undo")}>Undo ${plural(task.undo.changes, "change")}</button>`}
    <button type="button" class="quiet" disabled=${busy}
        onClick=${pin}>${task.pinned ? "Keep it no longer" : "Keep it"}</button>
    <${Trouble} problem=${problem} /></div>`;
}

const named = (task) => task.computers.map((one) => oneLine(one, 64)).sort(inOrder).join(", ");

// Who asked for it and where, in a line; the rest is folded.
function About({ task, readAt }) {
  const ways = [task.read_only && "only looks",
    task.rehearses && `rehearses on a copy of ${oneLine(task.rehearses, 64)}`,
    task.undoes && html`takes back <a href=${link("tasks", [task.undoes])}>${oneLine(task.undoes)}</a>`];
  const parts = [html`asked by ${oneLine(task.user_id, 64)}
    ${task.asked_at && ` at computer ${oneLine(task.asked_at, 64)}`} <${Ago} at=${task.created_at} />`,
  task.computers.length > 0 && `on ${named(task)}`, ...ways].filter(Boolean);
  return html`<p class="about muted">${parts.map((one, i) => html`${i ? " · " : ""}${one}`)}</p>
    <${OwnTimeline} task=${task} />
    <${Details}><${Facts} rows=${[
      ["Task", html`<code>${oneLine(task.task_id)}</code>`],
      ["Computers", named(task) || "none"],
      ["Model", oneLine(task.model, 80)],
      ["Steps", of(task.steps, task.max_steps)],
      ["Tokens", of(task.tokens, task.max_tokens)],
      ["Active time", html`<${Active} task=${task} readAt=${readAt} />`],
    ]} /><//>`;
}

function Head({ task, waiting, readAt, journal, onStep, children }) {
  const over = OVER.has(task.status);
  const start = startOf(task.prompt);
  return html`<header class="task-head">
    <p class="back"><a href=${link("tasks")}><${Icon} name="back" /> Tasks</a></p>
    <h1 class="prompt"><${Text} value=${start} />${start !== task.prompt && "…"}</h1>
    ${start !== task.prompt && html`<details><summary>Show all of it</summary>
      <p class="prose"><${Text} value=${task.prompt} /></p></details>`}
    ${over
      ? html`<${End} task=${task} journal=${journal} onStep=${onStep}>${children}<//>`
      : html`<div class="line"><${Status} status=${statusOf(task)} />${task.pinned && html`<span
          class="muted">kept</span>`}
        <span class="muted"><${Text} value=${task.status_reason} line=${300} /></span>
        ${waiting && html`<button type="button" class="small"
            onClick=${showWaiting}>Show what waits for you</button>`}${children}</div>`}
    <${About} task=${task} readAt=${readAt} />
  </header>`;
}

// The result of the last decision that was made here, also once its request is gone.
function Said({ task, shown }) {
  const { requests } = useStore(live);
  const known = useStore(outcomes);
  // A decision from before this page was opened is not news, unless its outcome is unknown.
  const before = useRef(known).current;
  const [key, outcome] = [...known]
    .findLast(([, one]) => (one.request ?? one.question)?.task_id === task.task_id) ?? [];
  const news = outcome && key !== shown && (outcome !== before.get(key) || outcome.state === "unsent");
  const box = useRef(null);
  useFocusKept(box, [news && outcome.state]);
  const told = news && { ...outcome, text: outcome.brief ?? outcome.text };
  return html`<div ref=${box} class="said"><${Outcome} outcome=${told} />
    <${Anew} request=${news && outcome.request && askedAnew(outcome.request, requests)} /></div>`;
}

// What it waits for: a question, a decision of this person's or of somebody else's, or one that lapsed.
function Waits({ task, request, again }) {
  const { busy, problem, doing } = useDoing();
  if (task.question) {
    return html`<section class="waits" tabindex="-1" aria-label="A question"><${Question} titled=${false} open
      question=${{ ...task.question, question: task.question.question ?? "", task_id: task.task_id, goal: "" }} />
          </section>`;
  }
  if (request) return html`<section class="waits" tabindex="-1"
      aria-label="A decision"><${Request} key=${request.request_id}
      request=${request} within /></section>`;
  if (task.request) {
    return html`<div class="note warn"><${WaitsFor} task=${task} /></div>`;
  }
  if (task.lapsed_request && !OVER.has(task.status)) {
    return html`<div class="note warn"><p>Nobody answered its request in time.</p>
      <button type="button" disabled=${busy}
          onClick=${() => doing(async () => { await post(`/v1/requests/${id(task.lapsed_request)}/renew`); again();
            })}>Ask anew</button>
      <${Trouble} problem=${problem} /></div>`;
  }
  return null;
}

// What comes of a decision and what it waits for; after the end the way back up.
function Below({ task, waits, shown, again }) {
  return html`<${Said} task=${task} shown=${shown} />
    ${OVER.has(task.status)
      ? html`<p class="line"><${Status} status=${statusOf(task)} /><button type="button" class="link"
          onClick=${() => document.getElementById("main").scrollIntoView()}>Show how it ended</button></p>`
      : html`<${Waits} task=${task} request=${waits} again=${again} />
        <${Transfers} computers=${task.computers} />`}`;
}

const LATE_MS = 3000;

// Whether the steps stand there. What is below them comes after, so that no button moves under somebody's finger; a
// stream that brings nothing is not waited for.
function useSteady(version, journal, broken) {
  const steady = useRef(false);
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), LATE_MS);
    return () => clearTimeout(timer);
  }, [journal.version]);
  steady.current ||= version !== undefined && (broken || late || journal.version >= version);
  return steady.current;
}

// Shows a step by its number, also one of many that was left out.
function showStep(step, onAll) {
  const find = () => document.querySelector(`[data-step="${step}"]`);
  if (!find()) onAll();
  requestAnimationFrame(() => requestAnimationFrame(() => {
    find()?.scrollIntoView({ block: "start" });
    find()?.focus({ preventScroll: true });
  }));
}

// Where the diff of a call stands if not in its step, so that none is on the page twice: with the decision that waits
// (`waits`), or with what a rehearsal came to (`copied`).
function placeOf(call, waits, copied) {
  if (waits?.tool_calls.some((one) => one.call_id === call.call_id)) {
    return { text: "It is shown with the decision below.", onClick: showWaiting };
  }
  const diff = call.observed?.diff;
  return diff && copied.some((one) => one.diff && isSame(one.diff, diff))
    ? { text: "Its changes are shown above.", onClick: () => document.querySelector(".rehearsal").scrollIntoView() }
    : null;
}

export function Task({ taskId }) {
  const { value: task, problem, again } = useReading(`/v1/tasks/${id(taskId)}`);
  const { journal, problem: unread, lost } = useJournal(taskId);
  const [asking, setAsking] = useState("");
  const [all, setAll] = useState(false);
  const [readAt, setReadAt] = useState(0);
  const [copied, setCopied] = useState([]);
  const undoing = task?.undo?.outcome?.task_id;
  useEffect(() => {
    // The end of the task that takes it back changes how this one ended; it may have come before it was listened for.
    if (undoing && task.undo.outcome.open) again();
    return onHint("tasks", (hint) => [taskId, undoing].includes(hint.task_id) && again());
  }, [taskId, undoing]);
  useEffect(() => { if (journal.version) again(); }, [journal.version]);
  useEffect(() => setReadAt(Date.now()), [task]);
  useTitle(task && STATUS[statusOf(task)], task?.prompt);
  const waits = useStore(live).requests.find((one) => one.task_id === taskId);
  const mine = task?.user_id === useStore(session).name || may("everything");
  const waiting = waits?.request_id ?? task?.question?.question_id;
  const steady = useSteady(task?.version, journal, Boolean(unread || lost));
  useNextInSight(steady && waiting);
  if (!task) {
    return html`<div class="page narrow"><p class="back"><a href=${link("tasks")}><${Icon} name="back" /> Tasks</a></p>
        <h1>Task</h1>
      ${problem
        ? html`<${NotThere} problem=${problem} again=${again} list=${{ address: link("tasks"), name: "All tasks" }} />`
        : html`<${Loading} />`}</div>`;
  }
  const over = OVER.has(task.status);
  const below = steady && !over ? waits : null;
  const onStep = (step) => showStep(step, () => setAll(true));
  return html`<article class="page narrow task" data-task=${taskId} data-status=${task.status}>
    <${Head} task=${task} waiting=${steady && waiting} readAt=${readAt} journal=${journal}
        onStep=${onStep}>
      ${mine && html`<${NextSteps} task=${task} onAsk=${setAsking} again=${again} />`}<//>
    <${Trouble} problem=${problem?.undelivered ? null : problem} again=${again} />
    ${over && task.rehearses && html`<${Rehearsal} task=${task} mine=${mine} onShown=${setCopied} />`}
    <h2 class="what">What happened</h2>
    <${Trouble} problem=${unread} />
    <${Safe} raw=${journal}>
      <${Steps} journal=${journal} all=${all} onAll=${() => setAll(true)} onStep=${onStep}
          placeOf=${(call) => placeOf(call, below, copied)} />
    <//>
    ${lost && html`<p class="muted" role="status">The stream was lost and is being opened again.</p>`}
    ${steady && html`<${Below} task=${task} waits=${waits} shown=${waiting} again=${again} />`}
    ${asking === "cancel" && html`<${CancelDialog} taskId=${taskId} onClose=${() => setAsking("")} onDone=${again} />`}
    ${asking === "undo" && html`<${UndoDialog} taskId=${taskId} onClose=${() => setAsking("")} />`}
  </article>`;
}
