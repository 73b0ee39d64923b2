// Small parts that every view is made of.
import { Component, html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { now } from "./api.js";
import { Store, useStore } from "./store.js";
import { Text, oneLine } from "./text.js";

// -- signs -----------------------------------------------------------------------------

const PATHS = {
  home: "M4 11l8-7 8 7M6 10v10h12V10M10 20v-6h4v6",
  tasks: "M5 6h14M5 12h14M5 18h9",
  approvals: "M12 3l7 3v5c0 4.5-3 8-7 10-4-2-7-5.5-7-10V6zM9 12l2 2 4-4",
  computers: "M4 5h16v11H4zM9 20h6M12 16v4M7.5 9l2 2-2 2M12 13h3",
  policy: "M7 3h8l4 4v14H7zM15 3v4h4M10 12h6M10 16h6",
  audit: "M11 4a7 7 0 105 12l4 4M11 7v4l3 2",
  people: "M9 11a3.5 3.5 0 100-7 3.5 3.5 0 000 7zM3 20c0-3.5 2.7-6 6-6s6 2.5 6 6M16 4.5a3.5 3.5 0 010 6.5"
    + "M18 14.5c2 .8 3 2.8 3 5.5",
  back: "M15 5l-7 7 7 7",
  plus: "M12 5v14M5 12h14",
  bell: "M6 17V11a6 6 0 0112 0v6l1.500 1.500h-15zM10 21h4",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8z"
    + "M12 2v2.5M12 19.5V22M2 12h2.5M19.5 12H22M5 5l1.7 1.7M17.3 17.3L19 19M19 5l-1.7 1.7M6.7 17.3L5 19",
  leave: "M14 4h5v16h-5M10 8l-4 4 4 4M6 12h9",
  keys: "M3 7h18v10H3zM7 11h.01M11 11h.01M15 11h.01M8 14h8",
};

export const LOGO = new URL("../icon.svg", import.meta.url).pathname;

export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} /></svg>`;

// -- badges ----------------------------------------------------------------------------

export const STATUS = {
  Queued: "Queued", Running: "Running", Paused: "Paused", Completed: "Completed", Failed: "Failed",
  Canceled: "Canceled", Unverified: "Unverified",
};

// The status of a task as it is said: a success that the journal does not support does not count as one.
export const statusOf = (task) => (task.status === "Completed" && task.status_reason === "unverified"
  ? "Unverified" : task.status);

export const Status = ({ status }) => html`<span class="badge status-${status}">${STATUS[status] ?? status}</span>`;

export const Risk = ({ risk }) => html`<span class="badge risk-${risk}">${risk} risk</span>`;

// -- time ------------------------------------------------------------------------------

const tick = new Store(0);
setInterval(() => tick.set(tick.value + 1), 1000);

export const useSecond = () => useStore(tick);

const UNITS = [["d", 86_400, 2 * 86_400], ["h", 3600, 2 * 3600], ["min", 60, 60], ["s", 1, 0]];

export function span(seconds) {
  const [unit, size] = UNITS.find(([, , least]) => seconds >= least) ?? UNITS.at(-1);
  return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
}

const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const exact = (at) => EXACT.format(new Date(at));

export function Ago({ at }) {
  useSecond();
  const seconds = (now() - Date.parse(at)) / 1000;
  return html`<time datetime=${at} title=${exact(at)}>${seconds < 5 ? "just now" : `${span(seconds)} ago`}</time>`;
}

export function Left({ until }) {
  useSecond();
  const seconds = (Date.parse(until) - now()) / 1000;
  const near = seconds < 120 ? "near" : "";
  return html`<time class="left ${near}" datetime=${until}
      title=${exact(until)}>${seconds <= 0 ? "expired" : `expires in ${span(seconds)}`}</time>`;
}

// -- long texts ------------------------------------------------------------------------

const FIRST_CHARS = 320;

// A text, or the beginning of a long one.
export function startOf(value) {
  const chars = Array.from(value);
  return chars.length <= FIRST_CHARS ? value : chars.slice(0, FIRST_CHARS - 60).join("");
}

// A text that explains and decides nothing: its beginning, and all of it while somebody wants it.
export function Long({ value }) {
  const [all, setAll] = useState(false);
  const start = startOf(value);
  if (start === value) return html`<${Text} value=${value} />`;
  return html`<${Text} value=${all ? value : start} />${all ? " " : "… "}<button type="button" class="link"
      aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? "Show less" : "Show all of it"}</button>`;
}

// A text as it stands, which the keyboard can scroll where it is longer than its room.
export function Pre({ value, label }) {
  const ref = useRef(null);
  const [scrolls, set] = useState(false);
  useEffect(() => {
    // A folded part has no height yet.
    const seen = new ResizeObserver(([{ target }]) => set(target.scrollHeight > target.clientHeight));
    seen.observe(ref.current);
    return () => seen.disconnect();
  }, [value]);
  const reached = scrolls && { tabindex: 0, role: "group", "aria-label": label };
  return html`<pre class="text" ref=${ref} ...${reached}><${Text} value=${value} /></pre>`;
}

// -- states ----------------------------------------------------------------------------

export const Loading = ({ rows = 3, label = "Loading" }) => html`
  <div class="loading" role="status"><span class="sr">${label}</span>
    ${Array.from({ length: rows }, () => html`<div class="ghost" aria-hidden="true"></div>`)}</div>`;

export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2><div>${children}</div></div>`;

export const Trouble = ({ problem, again }) => problem && html`
  <div class="note bad" role="alert"><p><${Text} value=${problem.sentence ?? "Something went wrong in this page."} />
      </p>
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}</div>`;

// A thing that is not there will not be there the next time either: a link to the list. `list`: {address, name}.
export const NotThere = ({ problem, again, list }) => (problem?.status === 404
  ? html`<div class="note bad" role="alert"><p><${Text}
      value=${problem.message.startsWith("GET ") ? "There is nothing at this address." : problem.message} /></p>
    <a class="button" href=${list.address}>${list.name}</a></div>`
  : html`<${Trouble} problem=${problem} again=${again} />`);

// A request that could not be drawn hides nothing: then all of it is shown as it came.
export class Safe extends Component {
  static getDerivedStateFromError(error) {
    return { error };
  }

  // What could not be drawn at one `place` may be at another.
  componentWillReceiveProps({ place }) {
    if (place !== this.props.place) this.setState({ error: null });
  }

  componentDidCatch(error) {
    console.error(error);
  }

  render({ children, raw }, { error }) {
    if (!error) return children;
    return html`<div class="note bad" role="alert"><p>This could not be drawn; this is all of it, as it came.</p>
      <${Pre} value=${JSON.stringify(raw, null, 2)} label="All of it" /></div>`;
  }
}

// -- dialogs ---------------------------------------------------------------------------

// A dialog of the browser's own: it holds the focus, and Escape leaves it.
// `stays`: only its own button closes it.
export function Dialog({ title, onClose, wide, stays, children }) {
  const ref = useRef(null);
  const came = useRef(null);
  // At once, so that what is typed next is typed here; the focus goes back once the dialog is gone.
  useLayoutEffect(() => {
    came.current = document.activeElement;
    ref.current.showModal();
    ref.current.querySelector("form :is(input, textarea, select)")?.focus();
  }, []);
  useEffect(() => () => {
    const before = came.current;
    (before?.isConnected && before !== document.body ? before : document.getElementById("main"))?.focus();
  }, []);
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-labelledby="dialog-title"
      onCancel=${(event) => { event.preventDefault(); if (!stays) onClose(); }}
      onKeyDown=${(event) => { if (stays && event.key === "Escape") event.preventDefault(); }}>
    <header><h2 id="dialog-title">${title}</h2>
      ${!stays && html`<button type="button" class="quiet small" onClick=${onClose}>Close</button>`}</header>
    ${children}
  </dialog>`;
}

// Where what had the focus went away, it moves to what was said, or to the beginning of the box.
export function useFocusKept(box, marks) {
  const began = useRef(false);
  useEffect(() => {
    if (began.current && [document.body, document.getElementById("main")].includes(document.activeElement)) {
      box.current?.querySelector("[data-outcome]")?.focus({ preventScroll: true });
    }
    began.current = true;
  }, marks);
}

// What comes by itself, after what was there before is decided, has the focus at its heading. `arrives`: it came so.
export function useArriving(box, arrives) {
  useEffect(() => { if (arrives) box.current.querySelector("h2")?.focus({ preventScroll: true }); }, []);
}

// The action of a button may take a while and may fail: it says so, and cannot be pressed twice.
export function useDoing() {
  const [state, set] = useState({ busy: false, problem: null });
  const alive = useRef(true);
  useEffect(() => () => { alive.current = false; }, []);
  // A button that is disabled meanwhile loses the focus: it gets it back.
  const held = useRef(null);
  useEffect(() => {
    if (state.busy || !held.current) return;
    if (document.activeElement === document.body && held.current.isConnected) held.current.focus();
    held.current = null;
  }, [state.busy]);
  const doing = async (act) => {
    held.current ??= document.activeElement;
    set({ busy: true, problem: null });
    try {
      await act();
      if (alive.current) set({ busy: false, problem: null });
    } catch (problem) {
      if (alive.current) set({ busy: false, problem });
    }
  };
  return { ...state, doing, forget: () => set({ busy: false, problem: null }) };
}

// -- facts -----------------------------------------------------------------------------

export const Facts = ({ rows }) => html`<dl class="facts">${rows.filter(Boolean).map(([name, value]) => html`
  <div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

// What a reader may want to look up and no decision is about: ids, hashes, digests, names of rules.
export const Details = ({ children }) => html`<details class="details"><summary>Details</summary>
    <div class="details-body">${children}</div></details>`;

export const Hash = ({ value }) => /^[0-9a-f]{64}$/.test(value)
  ? html`<code title=${value}>${value.slice(0, 12)}</code>`
  : html`<code><${Text} value=${value} /></code>`;

// `tool on computer farm`
export const where = (computer) => (computer ? `on computer ${oneLine(computer, 64)}` : "on this host");

export const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

const SIZES = [["MB", 1_000_000], ["kB", 1000]];

export function size(bytes) {
  const [unit, each] = SIZES.find(([, least]) => bytes >= least) ?? ["bytes", 1];
  return `${each === 1 ? bytes : (bytes / each).toFixed(1)} ${unit}`;
}

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
