// A unified diff as rows, and rows as a table: one column of text or two, numbered, with Lua's colours.
import { html, useCallback, useEffect, useMemo, useState } from "./html.js";
import { AT_FIRST, Blocks, useLines } from "./blocks.js";
import { linesOf } from "./lua.js";
import { Text } from "./text.js";
import { Store, useStore } from "./store.js";
import { plural } from "./ui.js";

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

// How diffs are looked at, remembered in this browser.
export const looks = new Store(remembered());

function remembered() {
  try {
    return { split: false, wrap: true, ...JSON.parse(localStorage.getItem("diff") ?? "{}") };
  } catch {
    return { split: false, wrap: true };
  }
}

export function setLook(fields) {
  looks.patch(fields);
  try {
    localStorage.setItem("diff", JSON.stringify(looks.value));
  } catch {
    // A browser may keep nothing; then it is for this visit.
  }
}

// Rows {kind, old, new, text}: kind is " ", "+", "-", "@" (a hunk's line), "f" (a file's) or "n" (a note).
// Whether a line is of the text is counted, so that a text cannot forge a line of the diff.
export function rowsOf(diff) {
  const rows = [];
  let left = 0, right = 0, oldLine = 0, newLine = 0;
  const lines = diff.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) {
    const kind = line[0] ?? " ";
    const text = line.slice(1);
    if (line.startsWith("\\")) {
      rows.push({ kind: "n", text: line.slice(1).trim() });
    } else if (left > 0 || right > 0) {
      if (kind === "-") rows.push({ kind, old: oldLine++, text }), left--;
      else if (kind === "+") rows.push({ kind, new: newLine++, text }), right--;
      else rows.push({ kind: " ", old: oldLine++, new: newLine++, text }), left--, right--;
    } else {
      const hunk = HUNK.exec(line);
      if (hunk) {
        [oldLine, newLine] = [Number(hunk[1]), Number(hunk[3])];
        [left, right] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      }
      rows.push({ kind: hunk ? "@" : "f", text: line });
    }
  }
  return rows;
}

// Rows beside one another: what went on the left, what came on the right.
export function pairsOf(rows) {
  const pairs = [];
  for (let at = 0; at < rows.length;) {
    if (rows[at].kind !== "-" && rows[at].kind !== "+") {
      pairs.push([rows[at], rows[at]]);
      at++;
      continue;
    }
    const went = [], came = [], notes = [];
    for (; at < rows.length && (rows[at].kind === "-" || rows[at].kind === "+" || rows[at].kind === "n"); at++) {
      (rows[at].kind === "-" ? went : rows[at].kind === "+" ? came : notes).push(rows[at]);
    }
    for (let i = 0; i < Math.max(went.length, came.length); i++) pairs.push([went[i] ?? null, came[i] ?? null]);
    pairs.push(...notes.map((note) => [note, note]));
  }
  return pairs;
}

export function counted(rows) {
  const of = (kind) => rows.reduce((count, row) => count + (row.kind === kind), 0);
  return { added: of("+"), removed: of("-") };
}

// Blanks that one would not see: at the end of a changed line, and tabs before one that has the same words on both
// sides.
const BLANKS = /^( *\t[ \t]*)?(.*?)([ \t]*)$/s;

function twinsOf(rows) {
  const of = (kind) => new Set(rows.filter((row) => row.kind === kind).map((row) => row.text.trim()));
  const came = of("+");
  return new Set([...of("-")].filter((text) => came.has(text)));
}

function blanksOf(row, twins) {
  if (row.kind !== "-" && row.kind !== "+") return { lead: "", body: row.text, tail: "" };
  const [, lead = "", body, tail] = BLANKS.exec(row.text);
  return lead && !twins.has(row.text.trim()) ? { lead: "", body: lead + body, tail } : { lead, body, tail };
}

const blanks = (text) => text && html`<span class="blanks" title="Blanks or tabs">${text}</span>`;

// Each row's text as Lua is coloured, read hunk by hunk and side by side with its own past.
function coloured(rows, twins) {
  const shown = new Map();
  let hunk = [];
  const flush = () => {
    for (const side of ["-", "+"]) {
      const own = hunk.filter((row) => row.kind === " " || row.kind === side);
      const lines = linesOf(own.map((row) => blanksOf(row, twins).body).join("\n"));
      own.forEach((row, i) => shown.set(row, lines[i]));
    }
    hunk = [];
  };
  for (const row of rows) {
    if (row.kind === "@" || row.kind === "f") flush();
    else if (row.kind !== "n") hunk.push(row);
  }
  flush();
  return shown;
}

// All rows but the two that name the file.
const shownRows = (diff) => rowsOf(diff).filter((row, at) => !(row.kind === "f" && at < 2));

export const isLong = (diff) => shownRows(diff).length > AT_FIRST;

// Whether two diffs are the same but for the lines that name their file.
export const isSame = (one, other) => one === other
  || JSON.stringify(shownRows(one)) === JSON.stringify(shownRows(other));

// Two columns stand only where there is room for them, wherever that was chosen.
const room = matchMedia("(min-width: 700px)");

function useRoom() {
  const [wide, set] = useState(room.matches);
  useEffect(() => {
    const change = () => set(room.matches);
    change();
    room.addEventListener("change", change);
    return () => room.removeEventListener("change", change);
  }, []);
  return wide;
}

// `lua`: coloured so. `badge`: beside the label. `onWhole`: told when all of it is on the page; a long diff is at
// first cut.
export function Diff({ diff, lua, label = "Changes", badge, onWhole }) {
  const { split: chosen, wrap: wraps } = useStore(looks);
  const split = useRoom() && chosen;
  // A column keeps to its half: a long line beside another would stand over it.
  const wrap = wraps || split;
  const rows = useMemo(() => shownRows(diff), [diff]);
  const { all, shown, open } = useLines(rows, onWhole);
  const kept = useMemo(() => (all ? rows : rows.slice(0, AT_FIRST)), [rows, all]);
  const twins = useMemo(() => twinsOf(rows), [rows]);
  const colours = useMemo(() => (lua ? coloured(kept, twins) : null), [kept, lua]);
  const lines = useMemo(() => (split ? pairsOf(kept) : kept), [kept, split]);
  const { added, removed } = useMemo(() => counted(rows), [rows]);
  const show = (row) => {
    if (!row) return row;
    const { lead, body, tail } = blanksOf(row, twins);
    return html`${blanks(lead)}${colours?.get(row) ?? html`<${Text} value=${body} />`}${blanks(tail)}`;
  };
  const draw = useCallback((line) => (split ? splitRow(line, show) : unifiedRow(line, show)), [colours, split]);
  const left = rows.length - shown;
  return html`
    <figure class="diff ${wrap ? "wrap" : ""}">
      <figcaption>
        <span class="what">${label}</span>${badge}
        <span class="plus">+${added}</span><span class="minus">−${removed}</span>
        <span class="tools">
          <button type="button" class="quiet small only-wide" aria-pressed=${split}
              onClick=${() => setLook({ split: !split })}>Side by side</button>
          ${!split && html`<button type="button" class="quiet small" aria-pressed=${wrap}
              onClick=${() => setLook({ wrap: !wrap })}>Wrap</button>`}
        </span>
      </figcaption>
      <div class="scroll" tabindex="0" role="group" aria-label=${label}><${Blocks} lines=${lines.slice(0, shown)}
          kind=${split ? "split" : ""} head=${split ? columns() : null} draw=${draw} /></div>
      ${left > 0 && html`<button type="button" class="more" aria-disabled=${all} onClick=${open}>
        ${all ? "Reading" : "Show"} the other ${plural(left, "line")}</button>`}
    </figure>`;
}

const SAID = { "+": "added", "-": "removed" };
const CLASS = { "+": "add", "-": "del", "@": "hunk", f: "file", n: "note", " ": "" };
const HUNK_SAID = (row) => (row.kind === "@" ? row.text.match(/^@@[^@]*@@/)?.[0] ?? row.text : row.text);

const Sign = ({ kind }) => html`<td class="sign">${SAID[kind] && html`<span class="sr">${SAID[kind]}: </span>`}
  <span aria-hidden="true">${SAID[kind] ? (kind === "+" ? "+" : "−") : ""}</span></td>`;

const isWide = (row) => row.kind === "@" || row.kind === "f" || row.kind === "n";

const wideRow = (row) => html`<tr class=${CLASS[row.kind]}><td colspan="4"><${Text} value=${HUNK_SAID(row)} /></td>
    </tr>`;

const unifiedRow = (row, show) => (isWide(row) ? wideRow(row) : html`<tr class=${CLASS[row.kind]}>
  <td class="no">${row.old}</td><td class="no">${row.new}</td><${Sign} kind=${row.kind} />
  <td class="txt">${show(row)}</td></tr>`);

const columns = () => html`<colgroup><col class="no" /><col /><col class="no" /><col /></colgroup>`;

function splitRow([left, right], show) {
  if (left && left === right && isWide(left)) return wideRow(left);
  const half = (row, kind, number) => html`
    <td class="no ${row?.kind === kind ? CLASS[kind] : row ? "" : "void"}">${row?.[number]}</td>
    <td class="txt half ${row?.kind === kind ? CLASS[kind] : row ? "" : "void"}">
      ${row?.kind === kind && html`<span class="sr">${SAID[kind]}: </span>`}${show(row)}</td>`;
  return html`<tr>${half(left, "-", "old")}${half(right, "+", "new")}</tr>`;
}

// -- a diff of one's own ---------------------------------------------------------------

const MOST_CELLS = 4_000_000;

// The unified diff of two texts, for what a person edits in the page; three lines around each change.
export function unified(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const steps = [
    ...a.slice(0, head).map((text) => [" ", text]),
    ...between(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map((text) => [" ", text]),
  ];
  return hunks(steps);
}

// What is between, by the longest common lines; where that would take too long, all of it.
function between(a, b) {
  if (a.length * b.length > MOST_CELLS) return [...a.map((text) => ["-", text]), ...b.map((text) => ["+", text])];
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] = a[i] === b[j]
        ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const steps = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) steps.push([" ", a[i]]), i++, j++;
    else if (j >= b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      steps.push(["-", a[i++]]);
    } else {
      steps.push(["+", b[j++]]);
    }
  }
  return steps;
}

function hunks(steps, around = 3) {
  const out = [];
  let oldLine = 1, newLine = 1, at = 0;
  const near = steps.map(() => false);
  steps.forEach(([kind], i) => {
    if (kind !== " ") near.fill(true, Math.max(0, i - around), i + around + 1);
  });
  while (at < steps.length) {
    if (!near[at]) {
      oldLine++, newLine++, at++;
      continue;
    }
    const lines = [];
    const [oldFrom, newFrom] = [oldLine, newLine];
    for (; at < steps.length && near[at]; at++) {
      const [kind, text] = steps[at];
      lines.push(kind + text);
      if (kind !== "+") oldLine++;
      if (kind !== "-") newLine++;
    }
    out.push(`@@ -${oldFrom},${oldLine - oldFrom} +${newFrom},${newLine - newFrom} @@`, ...lines);
  }
  return out.join("\n");
}
