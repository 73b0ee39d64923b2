// The queue: what waits for this person, one of it whole, and several together.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { id } from "../lib/api.js";
import { calledOf, gravest, short } from "../lib/called.js";
import { askedAnew, became, decideSeveral, outcomes, tell } from "../lib/decide.js";
import { live } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { go, link } from "../lib/route.js";
import { useStore } from "../lib/store.js";
import { oneLine } from "../lib/text.js";
import { Ago, Dialog, Empty, Icon, Left, Loading, Risk, Status, plural } from "../lib/ui.js";
import { Notify } from "./notify.js";
import { Question } from "./question.js";
import { Anew, Outcome, Request, isNoKey } from "./request.js";
import { RejectDialog } from "./saying.js";
import { WaitsFor } from "./team.js";

const KEYS = [
  ["j", "the next one"], ["k", "the one before"], ["a", "approve what is shown"], ["e", "edit it, then approve"],
  ["r", "reject it, with a reason"], ["g", "approve and remember"], ["?", "this help"], ["Esc", "leave a dialog"],
];
const MOST_TOGETHER = 100;
const FAILED = new Set(["refused", "unsent"]);
// How a decision stands, beside what still waits.
const AT = { sending: "sending…", unsent: "not delivered" };

const idOf = (one) => one.request_id ?? one.question_id;

function Help({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}><dl class="keys">${KEYS.map(([key, says]) => html`<div><dt>
      <kbd>${key}</kbd></dt><dd>${says}</dd></div>`)}</dl><//>`;
}

function RequestRow({ request }) {
  const { what, where, on } = short(gravest(request));
  const more = request.tool_calls.length - 1;
  return html`
    <span class="row-top"><code>${what}</code> <span class="muted">${where}</span>${more > 0 && html` <span
        class="muted">+${more}</span>`}<${Risk} risk=${request.risk} /></span>
    ${on && html`<span class="row-on"><code>${on}</code></span>`}
    <span class="row-goal">${oneLine(request.goal, 120)}</span>
    <span class="row-meta muted">${request.reason === "outcome_unknown" ? "outcome unknown · " : ""}
      ${oneLine(request.requester, 40)} · <${Ago} at=${request.created_at} />
      ${request.expires_at && html` · <${Left} until=${request.expires_at} />`}
      ${request.team?.progress && ` · ${oneLine(request.team.progress, 120)}`}
      ${request.team?.claimed_by && ` · ${oneLine(request.team.claimed_by, 40)} looks at it`}</span>`;
}

// Beside a request only the queue is moved, not the page.
function bringInSight(row, side, chosen) {
  if (side.scrollHeight > side.clientHeight) {
    const [inner, outer] = [row.getBoundingClientRect(), side.getBoundingClientRect()];
    side.scrollTop += Math.min(0, inner.top - outer.top) + Math.max(0, inner.bottom - outer.bottom);
  } else if (!chosen) {
    row.scrollIntoView({ block: "nearest" });
  }
}

function Queue({ all, chosen, choosing, picked, onPick }) {
  const list = useRef(null);
  const looked = useRef("");
  const known = useStore(outcomes);
  useEffect(() => {
    // The row that is looked at, or was, stays in sight.
    looked.current = chosen || looked.current;
    const rows = [...list.current.querySelectorAll("[data-id]")];
    const row = rows.find((one) => one.dataset.id === looked.current);
    if (row) bringInSight(row, list.current.closest(".side"), chosen);
  }, [chosen]);
  return html`<ul class="queue" ref=${list} aria-label="What waits">${all.map((one) => {
    const id = idOf(one);
    const at = id === chosen ? "true" : null;
    const can = one.request_id && one.allowed_decisions.includes("approve");
    return html`<li key=${id} class=${one.risk ? `edge-${one.risk}` : ""}>
      ${choosing && html`<input type="checkbox" aria-label="Take with the others: ${oneLine(one.goal, 60)}"
          disabled=${!can} checked=${picked.has(id)} onChange=${() => onPick(id)} />`}
      <a href=${link("approvals", [id])} aria-current=${at} data-id=${id}>${one.request_id ? html`<${RequestRow}
          request=${one} />` : html`
        <span class="row-top"><b>A question</b></span><span class="row-goal">${oneLine(one.question, 160)}</span>
        <span class="row-meta muted">${oneLine(one.goal, 80)}</span>`}
        ${AT[known.get(id)?.state] && html`<span class="badge ${known.get(id).state === "unsent" ? "warn" : ""}">
          ${AT[known.get(id).state]}</span>`}</a></li>`;
  })}</ul>`;
}

// Several, each shown whole, and one decision on all of them: exactly on these.
function Together({ ids, onLeave }) {
  const { requests } = useStore(live);
  const known = useStore(outcomes);
  const kept = useRef(new Map()).current;
  const [ready, setReady] = useState(new Map());
  const [rejecting, setRejecting] = useState(false);
  const [said, say] = useState("");
  for (const id of ids) {
    const found = requests.find((one) => one.request_id === id) ?? known.get(id)?.request;
    if (found) kept.set(id, found);
  }
  const shown = ids.map((id) => kept.get(id)).filter(Boolean);
  const open = shown.filter((one) => requests.some((other) => other.request_id === one.request_id));
  const able = open.map((one) => ready.get(one.request_id)).filter(Boolean);
  const note = (id, request) => setReady((before) => new Map(before).set(id, request));
  const sending = open.some((one) => known.get(one.request_id)?.state === "sending");
  const cannot = sending || able.length < open.length;
  return html`<div class="together">
    <h2>${plural(shown.length, "request")}, one decision</h2>
    ${shown.map((one) => html`<${Request} key=${one.request_id} request=${one} bare onReady=${note} />`)}
    <div class="bar sticky">${open.length
      ? html`<label class="sr" for="note">One note for all of these</label>
        <input id="note" maxlength="2000" placeholder="One note for all of these, if you like" value=${said}
            onInput=${(event) => say(event.target.value)} />
        <div class="actions"><button type="button" class="primary" disabled=${cannot}
          onClick=${() => decideSeveral(able, "approve", { reason: said.trim() })}>Approve these ${open.length}</button>
          <button type="button" class="danger" disabled=${sending}
              onClick=${() => setRejecting(true)}>Reject these ${open.length}</button>
          <button type="button" class="quiet" onClick=${onLeave}>Leave them</button></div>
          ${able.length < open.length && html`<p class="muted" role="status">Not all of each is shown yet.</p>`}`
      : html`<div class="note" role="status"><p>All of these are decided.</p><button type="button"
          onClick=${onLeave}>Back to the queue</button></div>`}</div>
    ${rejecting && html`<${RejectDialog} request=${open[0] ?? shown[0]} calls=${open.flatMap((one) => one.tool_calls)}
        onClose=${() => setRejecting(false)}
      onDecide=${([{ reason, on_reject }]) => {
        setRejecting(false);
        decideSeveral(open, "reject", { reason: reason || said.trim(), on_reject });
      }} />`}
  </div>`;
}

// What became of the decisions that were made before the one that is shown: of the last one, and of all that failed.
function Decided({ chosen }) {
  const { requests } = useStore(live);
  const known = useStore(outcomes);
  // What was told before this view was opened is no news.
  const before = useRef(known).current;
  const news = [...known].filter(([key, one]) => key !== chosen && (one.state === "unsent" || one !== before.get(key)));
  const shown = news.filter(([, { state }], at) => at === news.length - 1 || FAILED.has(state));
  return html`<div class="decided">${shown.map(([key, one]) => html`<${Outcome} key=${key} outcome=${one}
      about=${one.request ? calledOf(one.request) : "A question"}>
    <${Anew} request=${one.request && askedAnew(one.request, requests)} />
    ${one.state !== "sending" && html`<span class="actions"><a href=${link("approvals", [key])}>Show</a>
      <button type="button" class="link" onClick=${() => tell(key, null)}>Close</button></span>`}<//>`)}</div>`;
}

// What is chosen by its address, also when it is closed by now.
function Chosen({ chosen, state, known, arrives, onSent }) {
  const kept = useRef(new Map()).current;
  const request = state.requests.find((one) => one.request_id === chosen) ?? known.get(chosen)?.request;
  const question = state.questions.find((one) => one.question_id === chosen) ?? known.get(chosen)?.question;
  if (request || question) kept.set(chosen, request ? { request } : { question });
  const shown = kept.get(chosen);
  if (shown?.request) return html`<${Request} key=${chosen} request=${shown.request} keys
      arrives=${arrives} onSent=${onSent} />`;
  if (shown?.question) return html`<${Question} key=${chosen} question=${shown.question}
      arrives=${arrives} onSent=${onSent}
      open=${Boolean(question) && state.questions.some((one) => one.question_id === chosen)} />`;
  return html`<${Gone} key=${chosen} requestId=${chosen} />`;
}

// One that this page did not see open: what became of it, as the server knows.
function Gone({ requestId }) {
  const { value: waits, problem } = useReading(`/v1/requests/${id(requestId)}`);
  const { value: told } = useReading(`/v1/audit?request=${id(requestId)}&limit=1`);
  const { value: task } = useReading(waits ? `/v1/tasks/${id(waits.task_id)}` : null);
  if (!waits && !problem) return html`<${Loading} />`;
  const taskId = waits?.task_id ?? told?.items[0]?.task_id;
  const expired = problem?.code === "expired" ? "nobody answered it in time." : "";
  const how = expired || became(problem?.details ?? {});
  const said = waits ? "It waits for somebody else."
    : `It does not wait any more${how ? `: ${how}` : ". It was decided, has expired, or is for somebody else."}`;
  return html`<div class="note" role="status">${task?.request
    ? html`<${WaitsFor} task=${task} />` : html`<p>${said}</p>`}<div class="actions">
    ${taskId && html`<a class="button" href=${link("tasks", [taskId])}>See the task</a>`}
    <a class="button" href=${link("approvals")}>The queue</a></div></div>`;
}

const MOST_BEHIND = 5;

// Tasks that failed or were canceled after they had changed something, and that nothing takes back.
function LeftBehind({ over }) {
  const left = over.filter(({ undo }) => !undo.tasks.length && !undo.automatic && !undo.outcome).slice(0, MOST_BEHIND);
  if (!left.length) return null;
  return html`<section class="behind" aria-label="Left behind"><h2>Left behind</h2>
    <p class="muted">These ended badly after they had changed something, which can be put back.</p>
    <ul class="rows">${left.map((one) => html`<li key=${one.task_id}><a href=${link("tasks", [one.task_id])}>
      <span class="row-top"><${Status} status=${one.status} /><span class="row-prompt">${oneLine(one.goal, 120)}</span>
          </span>
      <span class="row-meta muted">${plural(one.undo.changes, "change")}: ${one.changes.slice(0, 2)
        .map((change) => oneLine(change.place, 60)).join(", ")}</span></a></li>`)}</ul></section>`;
}

function Nothing({ others }) {
  return html`<${Empty} title="Nothing waits for you">
    <p>When a task wants to do something that the policy asks about, it stands here within a second.</p>
    ${others > 0 && html`<p>${plural(others, "request")} ${others === 1 ? "waits" : "wait"} for somebody else.</p>`}
    <p><a class="button" href=${link("tasks")}>Tasks</a></p><//>`;
}

// Moves along the queue by j and k, and shows the help.
function useMoving(all, chosen, onHelp) {
  const held = useRef({}).current;
  Object.assign(held, { all, chosen, onHelp });
  useEffect(() => {
    const pressed = (event) => {
      if (isNoKey(event)) return;
      if (event.key === "?") return held.onHelp();
      const step = { j: 1, k: -1 }[event.key];
      if (!step || !held.all.length) return;
      // The address changes at once, what is shown a moment later: a second key must not begin where the first did.
      const pointed = held.all.findIndex((one) => link("approvals", [idOf(one)]) === location.hash);
      const at = pointed < 0 ? held.all.findIndex((one) => idOf(one) === held.chosen) : pointed;
      const next = at < 0 ? 0 : Math.min(Math.max(at + step, 0), held.all.length - 1);
      go(link("approvals", [idOf(held.all[next])]));
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

// What waits after this one, or else the first; what is decided or on its way is passed by.
function nextOf(all, id) {
  const passed = new Set(["sending", "done"]);
  const waits = (one) => idOf(one) !== id && !passed.has(outcomes.value.get(idOf(one))?.state);
  const at = all.findIndex((one) => idOf(one) === id);
  return all.slice(at + 1).find(waits) ?? all.find(waits);
}

const isWide = () => matchMedia("(min-width: 1080px)").matches;

export function Approvals({ chosen }) {
  const state = useStore(live);
  const known = useStore(outcomes);
  const [help, setHelp] = useState(false);
  const [choosing, setChoosing] = useState(false);
  const [picked, setPicked] = useState(new Set());
  const [together, setTogether] = useState(null);
  const all = [...state.requests, ...state.questions];
  useMoving(all, chosen, () => setHelp(true));
  const first = all.length ? idOf(all[0]) : "";
  useEffect(() => {
    // Where there is room for both, the oldest is shown at once; it stays when others come.
    if (!chosen && first && !together && isWide()) go(link("approvals", [first]), { replace: true });
  }, [chosen, first, together]);
  const before = useRef(chosen);
  useEffect(() => {
    if (chosen && before.current !== chosen) {
      // Another is shown from its beginning, and ticked boxes stay ticked.
      scrollTo(0, 0);
      setTogether(null);
    }
    before.current = chosen;
  }, [chosen]);
  if (!state.known) return html`<div class="page"><h1>Approvals</h1><${Loading} /></div>`;
  const pick = (id) => setPicked((before) => {
    const after = new Set(before);
    if (!after.delete(id) && after.size < MOST_TOGETHER) after.add(id);
    return after;
  });
  const leave = () => { setTogether(null); setPicked(new Set()); setChoosing(false); };
  const still = all.filter((one) => picked.has(idOf(one)));
  const gather = () => {
    setTogether(still.map(idOf));
    if (chosen) go(link("approvals"), { replace: true });
  };
  const detail = together ?? chosen;
  // Nobody waits for the server to look at the next one.
  const arriving = useRef("");
  const onSent = (id) => {
    const next = nextOf(all, id);
    if (!next) return;
    arriving.current = idOf(next);
    go(link("approvals", [arriving.current]), { replace: true });
  };
  return html`<div class="page approvals ${detail ? "with-detail" : ""}">
    <div class="side">
      <div class="head"><h1>Approvals</h1>
        <span class="tools"><${Notify} />
          ${state.requests.length > 1 && html`<button type="button" class="quiet small" aria-pressed=${choosing}
              onClick=${() => (choosing ? leave() : setChoosing(true))}>Several</button>`}
          <button type="button" class="quiet icon-only only-wide" title="Keys" aria-label="Keys"
              onClick=${() => setHelp(true)}><${Icon} name="keys" /></button></span></div>
      ${choosing && !together && html`<div class="actions pick"><button type="button" class="primary"
          disabled=${still.length < 1}
          onClick=${gather}>Look at ${still.length || "these"} together</button></div>`}
      ${all.length ? html`<${Queue} all=${all} chosen=${chosen} choosing=${choosing && !together} picked=${picked}
          onPick=${pick} />` : html`<${Nothing} others=${state.others} />`}
      ${all.length > 0 && state.others > 0 && html`<p
          class="muted">${plural(state.others, "more request")} ${state.others === 1 ? "waits" : "wait"} for somebody
            else.</p>`}
      <${LeftBehind} over=${state.over} />
    </div>
    ${detail && html`<div class="detail">
      <h1 class="sr">Approvals</h1>
      <p class="back"><a href=${link("approvals")} onClick=${leave}><${Icon} name="back" /> Approvals</a></p>
      ${together
        ? html`<${Together} ids=${together} onLeave=${leave} />`
        : html`<${Decided} chosen=${chosen} />
          <${Chosen} chosen=${chosen} state=${state} known=${known} arrives=${arriving.current === chosen}
              onSent=${onSent} />`}
    </div>`}
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
  </div>`;
}
