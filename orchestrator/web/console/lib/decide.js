// Decisions: bound to the shown calls, sent with a key, and confirmed to the person who made them.
//
// Theory. What is sent names each call with the digest that stood on the page, so it can be about nothing else. It has
// a key of its own: when the answer is lost nobody knows whether it was taken, and the same key may be sent again as
// often as it takes. The result is kept here, so that it is told even where the request is gone from the list.
import { COUNTS_ONCE, get, id, newKey, now, post } from "./api.js";
import { forget } from "./drafts.js";
import { session } from "./session.js";
import { Store } from "./store.js";
import { oneLine } from "./text.js";
import { span } from "./ui.js";
import { saw, unseen } from "./unseen.js";

const DONE = {
  approve: "approved by you", edit: "edited and approved by you", reject: "rejected by you",
  respond: "answered by you in its place", check: "checked again", mark_done: "marked as done by you",
  mark_failed: "marked as failed by you", retry: "asked for again by you",
};
const KEPT = 100;

// By request (or question) id: {state: sending | done | refused | unsent, text, request, again}; `action` and
// `calls`: what was decided and on which; `brief`: without how the task stands, where that is seen beside it.
export const outcomes = new Store(new Map());

// This module comes with the first view that decides: by then somebody may be signed in.
let owner = session.value.name ?? "";
session.subscribe(({ name }) => {
  if (!name || name === owner) return;
  // A decision of another person in this browser is theirs.
  owner = name;
  outcomes.set(new Map());
});

export function tell(key, outcome) {
  const all = new Map(outcomes.value);
  all.delete(key);
  if (outcome) all.set(key, outcome);
  if (["refused", "unsent"].includes(outcome?.state)) unseen.set(new Map(unseen.value).set(key, outcome));
  else if (outcome) saw(outcome);
  if (all.size > KEPT) all.delete(all.keys().next().value);
  outcomes.set(all);
}

// One decision for each of these calls. A call that was cut has no digest; the server binds it to the stored call.
export const decisionsOn = (calls, action, more = {}) =>
  calls.map((call) => ({
    call_id: call.call_id, action, ...(call.action_digest && { expected_digest: call.action_digest }), ...more,
  }));

export function decide(request, decisions) {
  const said = new Set(decisions.map((one) => one.action));
  const what = said.size === 1 ? DONE[decisions[0].action] : "decided by you";
  const body = { decisions, idempotency_key: newKey() };
  const about = { request, action: decisions[0].action, calls: decisions.map((one) => one.call_id) };
  return deliver(request.request_id, about, what, () => post(`/v1/resume/${id(request.request_id)}`, body));
}

export function answer(question, text) {
  const send = () => post(`/v1/tasks/${id(question.task_id)}/answer`,
    { question_id: question.question_id, answer: text });
  return deliver(question.question_id, { question }, "answered by you", send);
}

// Sends it, and says what became of it; the same again where nobody knows.
async function deliver(key, about, what, send) {
  tell(key, { ...about, state: "sending", text: "Sending…" });
  try {
    const task = await send();
    forget(key);
    tell(key, { ...about, state: "done", ...taken(what, task) });
  } catch (problem) {
    if (!problem.undelivered) {
      tell(key, { ...about, state: "refused", text: refusal(problem) });
      return;
    }
    const again = () => deliver(key, about, what, send);
    tell(key, { ...about, state: "unsent", again, text: COUNTS_ONCE });
  }
}

// What became of it: it is carried out, or it counts and more people have to approve.
function taken(what, { status, progress }) {
  const brief = progress ? `Counted: ${what}. Approved so far: ${oneLine(progress, 500)}.` : `Done: ${what}.`;
  return { brief, text: progress ? brief : `${brief} The task is ${status}.` };
}

// Several requests at once: each by itself, and each is told its own.
export async function decideSeveral(requests, action, more = {}) {
  const bodies = requests.map((request) => ({
    request_id: request.request_id,
    resume: { decisions: decisionsOn(request.tool_calls, action, more), idempotency_key: newKey() },
  }));
  const each = (make) => requests.forEach((request, i) => tell(request.request_id, { request, ...make(i) }));
  const send = async () => {
    each(() => ({ state: "sending", text: "Sending…" }));
    try {
      const { decisions } = await post("/v1/decisions", { requests: bodies });
      requests.forEach((request, i) => decisions[i].error || forget(request.request_id));
      each((i) => (decisions[i].error
        ? { state: "refused", text: refusal(decisions[i].error) }
        : { state: "done", text: taken(DONE[action], decisions[i]).text }));
    } catch (problem) {
      each(() => (problem.undelivered
        ? { state: "unsent", again: send,
          text: "Not delivered: the server did not answer. Send it again; it counts once." }
        : { state: "refused", text: refusal(problem) }));
    }
  };
  await send();
}

// Why it was not taken: too late and who was first, or the server's sentence.
export function refusal({ status, code, message, remedy, details = {} }) {
  if (status === 401) return "Not carried out: you were not signed in any more. Decide it again.";
  const todo = remedy ? ` ${oneLine(remedy, 2000)}` : "";
  if (code === "expired") return `Too late: nobody answered it in time, and it has expired.${todo}`;
  if (code === "not_pending" && details.how) return `Too late: ${became(details)}`;
  return `Not carried out: ${oneLine(message, 4000)}${todo}`;
}

// What became of a request, as a refusal's details tell it; empty where they do not.
export function became({ how, at }) {
  const ago = at ? ` ${span((now() - Date.parse(at)) / 1000)} ago` : "";
  return how ? `it was ${oneLine(how)}${ago}.` : "";
}

// A request that somebody else closed; `how` as the server says it.
export function closedMeanwhile(how) {
  if (!how) return "It was closed while this page was away; its task tells how.";
  if (how === "expired") return "Nobody answered it in time: it has expired.";
  return how.includes(" by ") ? `Decided elsewhere: ${oneLine(how)}.` : `It was closed: ${oneLine(how)}.`;
}

// For a decided request: the open one that has a call of it again, such as one that was stale.
export const askedAnew = (request, requests) => requests.find((one) => one.request_id !== request.request_id
  && one.tool_calls.some((call) => request.tool_calls.some((before) => before.call_id === call.call_id)));

export const whole = (requestId) => get(`/v1/requests/${id(requestId)}`);

const HOUR_S = 3600, YEAR_S = 31_536_000;

export const extend = (request, at) =>
  post(`/v1/requests/${id(request.request_id)}/extend`, {
    seconds: Math.min(Math.max(0, (Date.parse(request.expires_at) - at) / 1000) + HOUR_S, YEAR_S),
  });

// What is to catch the eye.
export const isGrave = (risk) => risk === "high" || risk === "critical" || risk === "unknown";
