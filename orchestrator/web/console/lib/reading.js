// Reading a door for a view: loading, what came, what went wrong; and again when it may be old.
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { get } from "./api.js";
import { epoch } from "./live.js";
import { useStore } from "./store.js";

const APART_MS = 700;

// {value, problem, again}: `again` reads once more, at most each 0.7 s however often it is asked. `path` null: nothing.
// What was read stays while it is read anew, and when that fails.
export function useReading(path) {
  const [state, set] = useState({ value: null, problem: null, path });
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
      if (held.path === wanted) set({ value, problem: null, path: wanted });
    } catch (problem) {
      if (held.path !== wanted) return;
      set((before) => ({ value: before.path === wanted ? before.value : null, problem, path: wanted }));
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
  const known = state.path === path;
  return { value: known ? state.value : null, problem: known ? state.problem : null, again };
}
