// Streams of a page that somebody looks at: for one that nobody sees, nobody has to be told.
import { stream } from "./events.js";
import { useEffect, useState } from "./html.js";

const HIDDEN_MS = 20_000;

// Reads a stream as long as the page is seen: hidden for `hiddenMs` it lets go of it, and reads again when somebody
// looks. `options` makes the options of each new connection. Ends when the server ended it; throws as `stream` does.
export async function whileSeen(path, signal, options, hiddenMs = HIDDEN_MS) {
  while (!signal.aborted) {
    await seen(signal);
    const shown = new AbortController();
    const end = () => shown.abort();
    const unwatch = whenHidden(end, hiddenMs);
    signal.addEventListener("abort", end);
    try {
      await stream(path, { ...options(), signal: shown.signal });
    } finally {
      unwatch();
      signal.removeEventListener("abort", end);
    }
    if (!shown.signal.aborted) return;
  }
}

function seen(signal) {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

function whenHidden(act, hiddenMs) {
  let timer = 0;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(act, hiddenMs);
  };
  look();
  document.addEventListener("visibilitychange", look);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
  };
}

// Whether an element is in sight, or nearly; `margin` in pixels around the window.
export function useInSight(box, margin = 120) {
  const [inSight, set] = useState(false);
  useEffect(() => {
    const seeing = new IntersectionObserver((entries) => set(entries.at(-1).isIntersecting),
      { rootMargin: `${margin}px` });
    seeing.observe(box.current);
    return () => seeing.disconnect();
  }, []);
  return inSight;
}
