// A small picture of a computer's terminal: live while it is in sight, painted about once in a second.
//
// A computer sends its screen only while somebody looks, so few are looked at at once: those that came in sight first.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { useInSight } from "../lib/seen.js";
import { useScreen } from "./watching.js";

const MOST = 24, APART_MS = 1000;

const looking = new Set(), waiting = new Set();

// A place among those that are looked at, while it is `wanted`: "has" or "waits"; empty: neither.
function usePlace(wanted) {
  const [place, set] = useState("");
  useEffect(() => {
    if (!wanted) return undefined;
    const one = { give: () => { looking.add(one); set("has"); } };
    if (looking.size < MOST) one.give();
    else {
      waiting.add(one);
      set("waits");
    }
    return () => {
      waiting.delete(one);
      set("");
      if (!looking.delete(one)) return;
      const [next] = waiting;
      waiting.delete(next);
      next?.give();
    };
  }, [wanted]);
  return place;
}

const SAID = { away: "Away", unreadable: "No picture", lost: "The server is away", refused: "Too many look" };

// The painter has the font of the game: both come with the first picture, or with a later one where that failed.
let coming = null;
function painting() {
  coming ??= import("./paint.js").catch(() => { coming = null; });
  return coming;
}

// Paints what a screen shows, whole and not too often.
function usePainting(canvas) {
  const held = useRef({ timer: 0, last: 0, screen: null, painter: null }).current;
  useEffect(() => () => clearTimeout(held.timer), []);
  const paint = async () => {
    held.timer = 0;
    held.last = Date.now();
    const found = held.screen.picture.width && await painting();
    if (!canvas.current || !found) return;
    const { picture } = held.screen;
    held.painter ??= new found.Painter(canvas.current);
    // A pixel of the canvas for each point; the browser makes them as large as the tile.
    held.painter.fit(picture);
    held.painter.paint(picture, null, false);
    canvas.current.hidden = false;
  };
  const soon = () => { held.timer ||= setTimeout(paint, Math.max(0, held.last + APART_MS - Date.now())); };
  return { held, soon };
}

// Only for the eye: what it shows stands as text at the computer's own place.
export function Thumbnail({ computer, online }) {
  const box = useRef(null), canvas = useRef(null);
  const place = usePlace(useInSight(box) && online);
  const { held, soon } = usePainting(canvas);
  const { state, screen } = useScreen(computer, "terminal", soon, place === "has");
  held.screen = screen;
  const said = !online ? "Away" : place === "waits" ? "Open it to look" : place && SAID[state];
  return html`<div class="thumbnail" ref=${box} aria-hidden="true"><canvas ref=${canvas} hidden></canvas>
    ${said && html`<span>${said}</span>`}</div>`;
}
