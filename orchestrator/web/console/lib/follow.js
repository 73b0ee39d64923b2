// A task's journal from its first item to its end, over connections that drop; and hints before an item is
// there.
import { useEffect, useState } from "./html.js";
import { id } from "./api.js";
import { hinted, nothing, taken } from "./journal.js";
import { whileSeen } from "./seen.js";
import { backoff, pause } from "./events.js";

const HINTS = new Set(["explanation", "message", "model_text", "output"]);
const DRAW_MS = 60;

// {journal, problem, lost}: what the journal tells so far; `problem` where it cannot be read at all.
export function useJournal(taskId) {
  const [state, set] = useState({ journal: nothing(), problem: null, lost: false });
  useEffect(() => {
    const one = new AbortController();
    let journal = nothing();
    let timer = 0;
    const draw = (fields) => {
      clearTimeout(timer);
      timer = 0;
      set((before) => ({ ...before, ...fields, journal }));
    };
    const hear = ({ kind, data }) => {
      journal = HINTS.has(kind) ? hinted(journal, kind, data) : taken(journal, data);
      // A long journal comes at once: it is drawn in a few steps.
      timer ||= setTimeout(() => draw({}), DRAW_MS);
    };
    follow(taskId, one.signal, () => journal, hear, draw);
    return () => {
      one.abort();
      clearTimeout(timer);
    };
  }, [taskId]);
  return state;
}

async function follow(taskId, signal, journal, hear, draw) {
  let attempt = 0;
  while (!signal.aborted) {
    try {
      const onOpen = () => draw({ lost: false, problem: null });
      await whileSeen(`/v1/tasks/${id(taskId)}/events`, signal,
        () => ({ lastId: String(journal().version), onOpen, onEvent: hear }));
      attempt = 0;
    } catch (problem) {
      // A refused request is refused the next time, too.
      if (problem.status >= 400 && problem.status < 500) return draw({ problem, lost: false });
    }
    if (signal.aborted) return;
    if (journal().ended) return draw({ lost: false });
    draw({ lost: true });
    await pause(backoff(Math.min(attempt++, 5)), signal);
  }
}
