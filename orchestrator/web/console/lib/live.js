// The open requests, as they are now: the reviewers' socket and the stream of hints, kept open with the page.
//
// Theory. Nothing is kept over a lost connection: the next snapshot is the truth, and lists are read anew (`epoch`).
// A hidden page lets go of its stream; the socket goes on telling what waits. A line that is dead without a word is
// found by asking: a page that was told nothing for a while asks whether the server is there.
import { Store } from "./store.js";
import { whileSeen } from "./seen.js";
import { backoff, pause } from "./events.js";
import { look } from "./session.js";

const PROTOCOLS = ["cc-orchestrator.review.v1.1", "cc-orchestrator.review.v1"];
const KEPT_CLOSED = 200;
const SILENCE_MS = 10_000;
const ANSWER_MS = 5_000;

// `state`: connecting, live or away (`since`, in ms). `closed`: how requests ended that stood here.
const NOTHING = {
  state: "connecting", since: 0, known: false, requests: [], questions: [], others: 0, over: [], closed: new Map(),
  version: "",
};
export const live = new Store(NOTHING);
// Rises when whatever was read before may be old.
export const epoch = new Store(0);

const hints = new EventTarget();
const opened = new EventTarget();
let running = null;

// `kind`: tasks {task_id, version} or computers {computer}.
export function onHint(kind, hear) {
  const told = (event) => hear(event.detail);
  hints.addEventListener(kind, told);
  return () => hints.removeEventListener(kind, told);
}

// A request or question that is new, not one that was there at the beginning.
export function onOpened(hear) {
  const told = (event) => hear(event.detail);
  opened.addEventListener("opened", told);
  return () => opened.removeEventListener("opened", told);
}

export function start() {
  if (running) return;
  running = new AbortController();
  live.set({ ...NOTHING, since: Date.now() });
  run(running.signal);
}

export function stop() {
  running?.abort();
  running = null;
  live.set(NOTHING);
}

async function run(signal) {
  let attempt = 0;
  while (!signal.aborted) {
    const one = new AbortController();
    const end = () => one.abort();
    signal.addEventListener("abort", end);
    const began = Date.now();
    await Promise.race([review(one.signal), watch(one.signal), probe(one.signal)]).catch(() => {});
    one.abort();
    signal.removeEventListener("abort", end);
    if (signal.aborted) return;
    if (live.value.state !== "away") live.patch({ state: "away", since: Date.now() });
    attempt = Date.now() - began > 5000 ? 0 : attempt + 1;
    await pause(backoff(Math.min(attempt, 5)), wake(signal));
    // A socket does not say why it was refused. Over a line that is dead no answer comes; another socket has its own.
    if (!signal.aborted) await Promise.race([look(), pause(ANSWER_MS, signal)]);
  }
}

// Aborted when it is worth trying at once: the network is back, or somebody looks.
function wake(signal) {
  const one = new AbortController();
  const now = () => one.abort();
  addEventListener("online", now, { once: true, signal: one.signal });
  document.addEventListener("visibilitychange", now, { once: true, signal: one.signal });
  signal.addEventListener("abort", now, { signal: one.signal });
  return one.signal;
}

// -- whether anybody is there ----------------------------------------------------------

let heard = 0;
let cut = new AbortController();
addEventListener("offline", () => cut.abort());

// Ends when the server does not answer, which nobody says of a line that is dead.
async function probe(signal) {
  heard = Date.now();
  while (!signal.aborted) {
    cut = new AbortController();
    await pause(SILENCE_MS, AbortSignal.any([signal, cut.signal]));
    const quiet = cut.signal.aborted || Date.now() - heard >= SILENCE_MS;
    if (quiet && !(await answers(signal))) return;
  }
}

async function answers(signal) {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), ANSWER_MS);
  try {
    await fetch("/healthz", { signal: AbortSignal.any([signal, late.signal]), cache: "no-store" });
    return true;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

// -- the stream of hints ---------------------------------------------------------------

const watch = (signal) => whileSeen("/v1/watch", signal, () => ({ onEvent: hinted }));

function hinted({ kind, data }) {
  heard = Date.now();
  if (kind === "hello") {
    live.patch({ version: data.version });
    epoch.set(epoch.value + 1);
  } else {
    hints.dispatchEvent(new CustomEvent(kind, { detail: data }));
  }
}

// -- the reviewers' socket -------------------------------------------------------------

function review(signal) {
  return new Promise((done) => {
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/reviewer`, PROTOCOLS);
    let seq = 0;
    signal.addEventListener("abort", () => socket.close());
    socket.onclose = done;
    socket.onmessage = ({ data }) => {
      if (signal.aborted) return;
      heard = Date.now();
      const message = JSON.parse(data);
      // Something was lost: a new connection brings a new snapshot.
      if (message.seq !== seq + 1) return socket.close();
      seq = message.seq;
      live.set(told(live.value, message));
      if (message.type === "request_opened" || message.type === "question_opened") {
        opened.dispatchEvent(new CustomEvent("opened", { detail: message.request ?? message.question }));
      }
    };
  });
}

const without = (list, field, value) => list.filter((one) => one[field] !== value);

// The state after a message.
function told(state, message) {
  switch (message.type) {
    case "snapshot": {
      const { requests, questions, others } = message;
      const still = new Set(requests.map((one) => one.request_id));
      const gone = state.requests.filter((one) => !still.has(one.request_id));
      const closed = gone.reduce((all, one) => closing(all, one.request_id, ""), state.closed);
      return { ...state, state: "live", since: Date.now(), known: true, requests, questions, others, closed, over: [] };
    }
    case "request_opened": {
      const { request } = message;
      const at = state.requests.findIndex((one) => one.request_id === request.request_id);
      const requests = at < 0 ? [...state.requests, request] : state.requests.with(at, request);
      return { ...state, requests };
    }
    case "request_closed": {
      const closed = closing(state.closed, message.request_id, message.how);
      return { ...state, requests: without(state.requests, "request_id", message.request_id), closed };
    }
    case "request_reminded": {
      const requests = state.requests.map((one) =>
        one.request_id === message.request_id ? { ...one, expires_at: message.expires_at, reminded: true } : one);
      return { ...state, requests };
    }
    case "question_opened":
      return {
        ...state,
        questions: [...without(state.questions, "question_id", message.question.question_id), message.question],
      };
    case "question_closed":
      return { ...state, questions: without(state.questions, "question_id", message.question_id) };
    case "task_over":
      return { ...state, over: [message, ...without(state.over, "task_id", message.task_id)] };
    default:
      return state;
  }
}

function closing(closed, requestId, how) {
  const all = new Map(closed);
  all.delete(requestId);
  all.set(requestId, how);
  if (all.size > KEPT_CLOSED) all.delete(all.keys().next().value);
  return all;
}
