// Server-sent events by fetch, which tells a refusal from a lost connection and every kind of event, known or not.
import { problemOf, unreachable } from "./api.js";

const SILENCE_MS = 40_000;

// Reads one connection to its end. `onEvent` gets {id, kind, data}; what brings nothing for 40 s, not even a comment,
// is lost. Throws a Problem when it was refused or lost; ends quietly when the server ended it or `signal` did.
export async function stream(path, { signal, lastId = "", onOpen = () => {}, onEvent }) {
  const own = new AbortController();
  const leave = () => own.abort();
  signal.addEventListener("abort", leave);
  let timer = setTimeout(leave, SILENCE_MS);
  try {
    const headers = { Accept: "text/event-stream", ...(lastId && { "Last-Event-ID": lastId }) };
    const answer = await fetch(path, { headers, signal: own.signal, cache: "no-store" });
    if (!answer.ok) throw await problemOf(answer);
    onOpen();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const take = parser(onEvent);
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(leave, SILENCE_MS);
      take(value);
    }
  } catch (error) {
    if (signal.aborted) return;
    throw error.status === undefined ? unreachable() : error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", leave);
    own.abort();
  }
}

function parser(onEvent) {
  let rest = "";
  let event = { id: "", kind: "message", data: [] };
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (event.data.length) onEvent({ id: event.id, kind: event.kind, data: JSON.parse(event.data.join("\n")) });
        event = { id: "", kind: "message", data: [] };
        continue;
      }
      const [name, ...value] = line.split(":");
      const said = value.join(":").replace(/^ /, "");
      if (name === "event") event.kind = said;
      else if (name === "data") event.data.push(said);
      else if (name === "id") event.id = said;
    }
  };
}

// Waits, or until `signal` is aborted; in ms.
export const pause = (ms, signal) =>
  new Promise((done) => {
    if (signal?.aborted) return done();
    const timer = setTimeout(over, ms);
    function over() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", over);
      done();
    }
    signal?.addEventListener("abort", over);
  });

// Longer each time, with jitter: 0.5, 1, 2, 4 … ms at most 5 s.
export const backoff = (attempt) => Math.min(500 * 2 ** attempt, 5000) * (0.5 + Math.random() / 2);
