// Streams of events over a socket: a browser opens only six connections of HTTP to a server for all of its windows.
import { Problem, unreachable } from "./api.js";

const SILENCE_MS = 40_000;
const PROTOCOL = "cc-orchestrator.events.v1";
const ENDED = 1000;

// Reads one connection to its end. `onEvent` gets {id, kind, data}; what brings nothing for 40 s, not even a comment,
// is lost. Throws a Problem when it was refused or lost; ends quietly when the server ended it or `signal` did.
export async function stream(path, { signal, lastId = "", onOpen = () => {}, onEvent }) {
  if (signal.aborted) return;
  const url = new URL(path, location.origin.replace(/^http/, "ws"));
  if (lastId) url.searchParams.set("after", lastId);
  const socket = new WebSocket(url, [PROTOCOL]);
  // A page that leaves waits for no goodbye: over a dead connection a browser waits a minute for one.
  const left = Promise.withResolvers();
  const leave = () => {
    socket.onopen = socket.onmessage = null;
    socket.close();
    left.resolve({});
  };
  let timer = setTimeout(leave, SILENCE_MS);
  signal.addEventListener("abort", leave);
  try {
    const { code, refused } = await Promise.race([left.promise, read(socket, signal, onOpen, onEvent, () => {
      clearTimeout(timer);
      timer = setTimeout(leave, SILENCE_MS);
    })]);
    if (!signal.aborted && code !== ENDED) throw refused ?? unreachable();
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", leave);
    leave();
  }
}

// How it closed, and why it was refused.
function read(socket, signal, onOpen, onEvent, heard) {
  let refused = null;
  const take = parser((event) => {
    if (event.kind === "refused") refused = new Problem(event.data.status, event.data.error);
    else onEvent(event);
  });
  return new Promise((done, failed) => {
    socket.onopen = () => { if (!signal.aborted) onOpen(); };
    socket.onclose = ({ code }) => done({ code, refused });
    socket.onmessage = ({ data }) => {
      if (signal.aborted) return;
      heard();
      try {
        take(data);
      } catch (error) {
        failed(error);
      }
    };
  });
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
