// A screen watched live: its stream is open only while this page is looked at, and opened again when it breaks.
import { id } from "../lib/api.js";
import { useEffect, useRef, useState } from "../lib/html.js";
import { whileSeen } from "../lib/seen.js";
import { backoff, pause } from "../lib/events.js";
import { NOTHING, taken } from "./picture.js";

// A computer sends pictures only while somebody looks, so this page says soon that it does not.
const HIDDEN_MS = 1000;
// As many as there may be watch it: somebody may leave.
const FULL_MS = 4000;

// {state, message, since, screen}: `state` is opening, live, away, unreadable, lost or refused; `message` says why;
// `since`, in ms, is when the picture stopped. `screen.picture` changes without a drawing: `onPicture` hears of the
// rows.
// Nothing is watched unless `wanted`; the last picture stays.
export function useScreen(computer, of, onPicture, wanted = true) {
  const screen = useRef({ picture: NOTHING }).current;
  const [told, tell] = useState({ state: "opening", message: "", since: 0 });
  const heard = useRef(onPicture);
  heard.current = onPicture;
  useEffect(() => {
    if (!wanted) return undefined;
    const all = new AbortController();
    screen.picture = NOTHING;
    tell({ state: "opening", message: "", since: 0 });
    const path = `/v1/computers/${id(computer)}/screen?of=${id(of)}`;
    const stopped = (state, message = "") =>
      all.signal.aborted || tell((before) => ({ state, message, since: before.since || Date.now() }));
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
  }, [computer, of, wanted]);
  return { ...told, screen };
}

async function follow(path, signal, onEvent, stopped) {
  let attempt = 0;
  const options = () => ({ onOpen: () => { attempt = 0; }, onEvent });
  while (!signal.aborted) {
    let wait = backoff(Math.min(attempt++, 3));
    try {
      await whileSeen(path, signal, options, HIDDEN_MS);
      stopped("lost");
    } catch (problem) {
      const refused = problem.status >= 400 && problem.status < 500;
      stopped(refused ? "refused" : "lost", refused ? problem.sentence : "");
      if (refused && problem.status !== 429) return;
      if (refused) wait = FULL_MS;
    }
    await pause(wait, signal);
  }
}
