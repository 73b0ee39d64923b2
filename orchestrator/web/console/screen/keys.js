// What is typed here on its way to a computer: collected for a moment, sent in order, one request at a time, never
// twice.
import { id, post } from "../lib/api.js";

const COLLECT_MS = 250, AGAIN_MS = 400;
const MOST_KEYS = 40, MOST_CHARS = 512, MOST_LINES = 20;
const MOST_WAITING = 2000;

// The browser's names of keys, and the game's.
const NAMES = {
  Enter: "enter", Tab: "tab", Backspace: "backspace", Delete: "delete", Insert: "insert", ArrowUp: "up",
  ArrowDown: "down",
  ArrowLeft: "left", ArrowRight: "right", Home: "home", End: "end", PageUp: "pageUp", PageDown: "pageDown",
  ...Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`F${at + 1}`, `f${at + 1}`])),
};

// Whether the game has a key for a character: ASCII and the letters of western Europe.
export const isTyped = (char) => /^[ -~\u00a0-\u00ff]$/.test(char);

// The game's name of a key that was pressed; null: it is a character's, the browser's, or none.
export function keyOf(event) {
  if (event.ctrlKey && !event.altKey && event.key.toLowerCase() === "t") return "terminate";
  return event.ctrlKey || event.altKey || event.metaKey ? null : NAMES[event.key] ?? null;
}

// A text in parts that a computer takes at once.
function partsOf(text) {
  const parts = [];
  let part = "", lines = 0;
  for (const char of text) {
    if (part.length >= MOST_CHARS || lines >= MOST_LINES) {
      parts.push(part);
      part = "";
      lines = 0;
    }
    part += char;
    if (char === "\n") lines += 1;
  }
  return part ? [...parts, part] : parts;
}

// `tell({state, message})` hears what became of it: typing, delivered, cut (some of it was left out), lost (not typed,
// and why) or unknown.
export class Typist {
  #waiting = [];
  #timer = 0;
  #busy = false;
  #over = false;

  constructor(computer, tell) {
    this.path = `/v1/computers/${id(computer)}/keys`;
    this.tell = tell;
  }

  // Keys by their names, or characters.
  press(...keys) {
    this.#add(keys.map((key) => ({ key })));
  }

  // A pasted text, line by line; characters that the game has no key for are left out and named.
  paste(text) {
    const chars = Array.from(text.replaceAll("\r\n", "\n").replaceAll("\t", "  "));
    const kept = chars.filter((char) => char === "\n" || isTyped(char)).join("");
    if (kept.length < chars.length) {
      this.tell({ state: "cut", message: "Some characters were left out: the game has no keys for them." });
    }
    this.#add(partsOf(kept).map((part) => ({ text: part })));
  }

  end() {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#waiting = [];
  }

  #add(strokes) {
    if (this.#waiting.length + strokes.length > MOST_WAITING) return;
    this.#waiting.push(...strokes);
    if (!strokes.length || this.#busy) return;
    this.#timer ||= setTimeout(() => this.#send(), COLLECT_MS);
  }

  // What goes next: a text, or the keys up to the next text.
  #next() {
    if (this.#waiting[0].text !== undefined) return { body: { text: this.#waiting[0].text }, size: 1 };
    const until = this.#waiting.findIndex((one) => one.text !== undefined);
    const size = Math.min(MOST_KEYS, until < 0 ? this.#waiting.length : until);
    return { body: { keys: this.#waiting.slice(0, size).map((one) => one.key) }, size };
  }

  async #send() {
    this.#timer = 0;
    this.#busy = true;
    while (this.#waiting.length && !this.#over) {
      const { body, size } = this.#next();
      this.tell({ state: "typing", message: "" });
      const came = await this.#deliver(body);
      if (this.#over) break;
      if (came.again) {
        await new Promise((done) => setTimeout(done, AGAIN_MS));
        continue;
      }
      // What follows keys that never came would be typed into something else.
      this.#waiting = came.state === "delivered" ? this.#waiting.slice(size) : [];
      this.tell(came);
    }
    this.#busy = false;
  }

  async #deliver(body) {
    try {
      const { delivered, message } = await post(this.path, body);
      return { state: delivered === null ? "unknown" : delivered ? "delivered" : "lost", message };
    } catch (problem) {
      if (problem.code === "too_many_keys") return { again: true };
      if (problem.undelivered) return { state: "unknown", message: "The server did not answer." };
      return { state: "lost", message: problem.sentence, refused: problem.status === 403 };
    }
  }
}
