// Text from the world made safe to look at: the same escapes as orchestrator/core/text/visible.py, which says why.
// It becomes text nodes and nothing else; escapes and the markers of secrets can be told from text that forges them.
import { html } from "./html.js";

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}]/u;
const HIDDEN_LETTERS = new Set(
  [0x115f, 0x1160, 0x3164, 0xffa0, 0x2800, 0x034f, 0x17b4, 0x17b5, 0x16fe4, 0xfffc],
);
const VARIATIONS = [[0x180b, 0x180f], [0xfe00, 0xfe0f], [0xe0100, 0xe01ef]];
const MARK = /[\p{Mn}\p{Me}]/u;
const MARKS_ON_ONE = 4;
const ODD = /[^\n\t -~]+/g;
const SECRET = /\[redacted [0-9a-f]{8}\]/g;

const hides = (char, code) =>
  HIDDEN.test(char) || HIDDEN_LETTERS.has(code) || VARIATIONS.some(([first, last]) => first <= code && code <= last);

// A run of characters that are not plain ASCII, as pieces.
function odd(run, before) {
  // A mark at the beginning of a line would stand on a sign of ours.
  let marks = before && before !== "\n" && before !== "\t" ? 0 : MARKS_ON_ONE;
  const pieces = [];
  for (const char of run) {
    const code = char.codePointAt(0);
    marks = MARK.test(char) ? marks + 1 : 0;
    if (hides(char, code) || marks > MARKS_ON_ONE) {
      pieces.push({ kind: "escape", text: `\\u{${code.toString(16)}}` });
      marks = MARKS_ON_ONE;
    } else {
      pieces.push({ kind: "plain", text: char });
    }
  }
  return pieces;
}

function secrets(text) {
  const pieces = [];
  let at = 0;
  for (const found of text.matchAll(SECRET)) {
    if (found.index > at) pieces.push({ kind: "plain", text: text.slice(at, found.index) });
    pieces.push({ kind: "secret", text: found[0] });
    at = found.index + found[0].length;
  }
  if (at < text.length) pieces.push({ kind: "plain", text: text.slice(at) });
  return pieces;
}

// The text in pieces: `plain`, `escape` (what would hide or move) and `secret` (the marker of one).
export function piecesOf(value) {
  const text = String(value ?? "");
  const raw = [];
  let at = 0;
  for (const found of text.matchAll(ODD)) {
    if (found.index > at) raw.push(...secrets(text.slice(at, found.index)));
    raw.push(...odd(found[0], text.slice(found.index - 1, found.index)));
    at = found.index + found[0].length;
  }
  if (at < text.length) raw.push(...secrets(text.slice(at)));
  const pieces = [];
  for (const piece of raw) {
    const last = pieces.at(-1);
    if (last && last.kind === "plain" && piece.kind === "plain") last.text += piece.text;
    else pieces.push({ ...piece });
  }
  return pieces;
}

export const visible = (value) => piecesOf(value).map((piece) => piece.text).join("");

export const isPlain = (value) => visible(value) === String(value ?? "");

// On one line and no longer than `limit` characters, the cut said.
export function oneLine(value, limit = 200) {
  const chars = Array.from(String(value ?? ""));
  const kept = visible(chars.slice(0, limit).join("")).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
  return chars.length > limit ? `${kept} [… ${chars.length - limit} characters more]` : kept;
}

// Names in the order in which people count: `sim-2` before `sim-10`.
export const inOrder = (a, b) => a.localeCompare(b, undefined, { numeric: true });

// A text of the world. `line`: on one line, at most so many characters.
export function Text({ value, line }) {
  if (line) return html`<bdi>${oneLine(value, line)}</bdi>`;
  return html`<bdi>${piecesOf(value).map(({ kind, text }) =>
    kind === "plain" ? text : html`<span class=${kind} title=${TOLD[kind]}>${text}</span>`)}</bdi>`;
}

const TOLD = {
  escape: "A character that would hide or move something, shown as its number",
  secret: "A secret stands here; what runs has it",
};
