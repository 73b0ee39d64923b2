// A screen watched live: its stream is open only while this page is looked at, and opened again when it breaks.
import { id } from "../lib/api.js";
import { useEffect, useRef, useState } from "../lib/html.js";
import { backoff, pause, stream } from "../lib/sse.js";
import { NOTHING, taken } from "./picture.js";

const HIDDEN_MS = 1000;
const FULL_MS = 4000;

// {state, message, since, screen}: `state` is opening, live, away, unreadable, lost or refused; `message` says why;
// `since`, in ms, is when the picture stopped. `screen.picture` changes without a drawing: `onPicture` hears of the rows.
export function useScreen(computer, of, onPicture) {
  const screen = useRef({ picture: NOTHING }).current;
  const [told, tell] = useState({ state: "opening", message: "", since: 0 });
  const heard = useRef(onPicture);
  heard.current = onPicture;
  useEffect(() => {
    const all = new AbortController();
    screen.picture = NOTHING;
    tell({ state: "opening", message: "", since: 0 });
    const path = `/v1/computers/${id(computer)}/screen?of=${id(of)}`;
    const stopped = (state, message = "") =>
      tell((before) => ({ state, message, since: before.since || Date.now() }));
    const hear = ({ kind, data }) => {
      if (kind === "away") return stopped("away");
      if (kind === "unreadable") return stopped("unreadable", data.message);
      if (kind !== "picture") return undefined;
      screen.picture = taken(screen.picture, data);
      tell((before) => (before.state === "live" ? before : { state: "live", message: "", since: 0 }));
      heard.current(data.whole ? null : new Set(data.rows.map((row) => row.y)));
      return undefined;
    };
    follow(path, all.signal, hear, stopped);
    return () => all.abort();
  }, [computer, of]);
  return { ...told, screen };
}

async function follow(path, signal, onEvent, stopped) {
  let attempt = 0;
  while (!signal.aborted) {
    await looked(signal);
    const one = new AbortController();
    const end = () => one.abort();
    signal.addEventListener("abort", end);
    const heedless = whenHidden(end);
    let wait = 0;
    try {
      await stream(path, { signal: one.signal, onOpen: () => { attempt = 0; }, onEvent });
      if (!one.signal.aborted) stopped("lost");
    } catch (problem) {
      if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) return stopped("refused", problem.sentence);
      if (problem.status === 429) wait = FULL_MS;
      stopped(wait ? "refused" : "lost", wait ? problem.sentence : "");
    } finally {
      heedless();
      signal.removeEventListener("abort", end);
    }
    if (!one.signal.aborted) await pause(wait || backoff(Math.min(attempt++, 3)), signal);
  }
  return undefined;
}

function looked(signal) {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

function whenHidden(act) {
  let timer = 0;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(act, HIDDEN_MS);
  };
  document.addEventListener("visibilitychange", look);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
  };
}
