// Reading an endpoint for a view: loading, what came, what went wrong; and again when it may be old.
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { get } from "./api.js";
import { epoch, live } from "./live.js";
import { session } from "./session.js";
import { useStore } from "./store.js";

const APART_MS = 700;
const MOST_KEPT = 60;

// What was read last of each path, for while the server is away.
const kept = new Map();
session.subscribe(({ where }) => where === "out" && kept.clear());

function keep(path, value) {
  kept.delete(path);
  kept.set(path, value);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
}

const known = (path) => (live.value.state === "away" && kept.get(path)) || null;

// {value, problem, again}: `again` reads once more, at most each 0.7 s however often it is asked. `path` null: nothing.
// The read value stays while it is read anew, and when that fails; also over a look at another view.
export function useReading(path) {
  const [state, set] = useState({ value: known(path), problem: null, path });
  const since = useStore(epoch);
  const held = useRef({ timer: 0, last: 0, path }).current;
  held.path = path;
  const read = useCallback(async () => {
    held.timer = 0;
    held.last = Date.now();
    const wanted = held.path;
    if (wanted === null) return;
    try {
      const value = await get(wanted);
      keep(wanted, value);
      if (held.path === wanted) set({ value, problem: null, path: wanted });
    } catch (problem) {
      if (held.path !== wanted) return;
      const old = problem.undelivered ? kept.get(wanted) ?? null : null;
      set((before) => ({ value: (before.path === wanted && before.value) || old, problem, path: wanted }));
    }
  }, []);
  const again = useCallback(() => {
    held.timer ||= setTimeout(read, Math.max(0, held.last + APART_MS - Date.now()));
  }, []);
  useEffect(() => {
    clearTimeout(held.timer);
    read();
    return () => {
      clearTimeout(held.timer);
      held.timer = 0;
    };
  }, [path, since]);
  const here = state.path === path;
  return { value: here ? state.value : known(path), problem: here ? state.problem : null, again };
}
