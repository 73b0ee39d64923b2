// A screen of a computer: its picture, sharp and live, or as text; and a cover where there is none.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { now } from "../lib/api.js";
import { Text, oneLine } from "../lib/text.js";
import { span, useSecond } from "../lib/ui.js";
import { Painter, scaleOf } from "./paint.js";
import { textOf } from "./picture.js";
import { useScreen } from "./watching.js";

const BLINK_MS = 400, TEXT_MS = 500;
// The height above and below a screen on the page, in pixels.
const AROUND = 300, LEAST = 220;

const still = matchMedia("(prefers-reduced-motion: reduce)");

// Paints what comes into the canvas, as large as there is room.
function usePainting(screen, canvas, box) {
  const held = useRef({ painter: null, on: true, dirty: new Set(), frame: 0 }).current;
  const draw = (which) => {
    const { picture } = screen.current;
    if (!canvas.current || !picture.width) return;
    held.painter = held.painter?.canvas === canvas.current ? held.painter : new Painter(canvas.current);
    const ratio = devicePixelRatio || 1;
    const scale = scaleOf(picture, box.current.clientWidth, Math.max(LEAST, innerHeight - AROUND), ratio);
    const all = held.painter.fit(picture) || !which;
    canvas.current.style.width = `${(canvas.current.width * scale) / ratio}px`;
    canvas.current.classList.toggle("small", scale < 1);
    held.painter.paint(picture, all ? null : which, held.on || still.matches);
  };
  const soon = (rows) => {
    if (!rows || !held.dirty) held.dirty = null;
    else rows.forEach((row) => held.dirty.add(row));
    held.dirty?.add(held.at).add(screen.current.picture.y);
    held.at = screen.current.picture.y;
    held.frame ||= requestAnimationFrame(() => {
      const which = held.dirty;
      Object.assign(held, { frame: 0, dirty: new Set() });
      draw(which);
    });
  };
  useEffect(() => {
    const sized = new ResizeObserver(() => soon(null));
    sized.observe(box.current);
    const timer = setInterval(() => {
      held.on = !held.on;
      if (screen.current.picture.blink && !still.matches) soon(new Set());
    }, BLINK_MS);
    return () => {
      sized.disconnect();
      clearInterval(timer);
      cancelAnimationFrame(held.frame);
      held.frame = 0;
    };
  }, []);
  return soon;
}

// `seen`: a picture was seen before.
function Cover({ state, message, since, seen, seenAt }) {
  useSecond();
  // When the computer was there last is told by the server's clock.
  const left = state === "away" && seenAt ? now() - Date.parse(seenAt) : seen ? Date.now() - since : -1;
  const ago = left < 0 ? "" : span(left / 1000);
  const said = {
    opening: "Looking…",
    away: `Away${ago && ` for ${ago}`}. It is shown again as soon as it is back.`,
    lost: `The server is away${ago && ` for ${ago}`}. This is what was seen last.`,
    unreadable: message,
    refused: message,
  }[state];
  return html`<div class="cover ${state}" role="status"><p><${Text} value=${said} /></p></div>`;
}

// `asText`: shown as text instead. `seenAt`: when the computer was there last.
export function Screen({ computer, of, asText, seenAt, onSize, children }) {
  const canvas = useRef(null), box = useRef(null), current = useRef({ picture: { width: 0 } });
  const [shape, setShape] = useState({ width: 0, height: 0, text: "" });
  const later = useRef(0);
  const paint = usePainting(current, canvas, box);
  const { state, message, since, screen } = useScreen(computer, of, (rows) => {
    paint(rows);
    const tell = () => {
      later.current = 0;
      const { width, height } = current.current.picture;
      setShape({ width, height, text: textOf(current.current.picture) });
    };
    // The text is made anew a few times a second at most.
    if (rows === null) tell();
    else later.current ||= setTimeout(tell, TEXT_MS);
  });
  current.current = screen;
  useEffect(() => () => clearTimeout(later.current), []);
  useLayoutEffect(() => paint(null), [asText, shape.width]);
  useEffect(() => { onSize?.(shape.width ? `${shape.width} by ${shape.height}` : ""); }, [shape.width, shape.height]);
  const name = oneLine(`${of === "terminal" ? "Terminal" : `Monitor ${of}`} of ${computer}`);
  return html`<div class="screen ${state}" ref=${box}>
    ${asText
      ? html`<pre class="screen-text" tabindex="0" role="group" aria-label="${name}, as text">${shape.text}</pre>`
      : html`<canvas ref=${canvas} role="img" aria-label=${name} hidden=${!shape.width}></canvas>
        <div class="sr" role="group" aria-label="${name}, its text"><pre>${shape.text}</pre></div>`}
    ${!shape.width && html`<div class="screen-blank" aria-hidden="true"></div>`}
    ${state !== "live" && html`<${Cover} state=${state} message=${message} since=${since} seen=${shape.width > 0}
        seenAt=${seenAt} />`}
    ${children}
  </div>`;
}
