// A computer's screen as the stream of its pictures tells it: rows of characters and colours, the cursor, the palette.
// `rows[y - 1]` is {text: [char…], fg, bg}, the colours as digits; null: nobody told this row.

export const NOTHING = { width: 0, height: 0, x: 0, y: 0, blink: false, palette: [], rows: [] };

// The picture after an event `picture`; the earlier picture is not changed.
export function taken(before, told) {
  const { whole, width, height, x, y, blink, palette } = told;
  const rows = whole ? Array.from({ length: height }, () => null) : [...before.rows];
  for (const { y: at, text, fg, bg } of told.rows) rows[at - 1] = { text, fg, bg };
  return { width, height, x, y, blink, palette, rows };
}

const BLOCK = /[\u{1fb00}-\u{1fb99}\u258c]/gu;

// The text of the screen, row by row, for readers; blocks that only paint are blanks.
export const textOf = ({ rows }) =>
  rows.map((row) => (row ? row.text.join("").replace(BLOCK, " ").trimEnd() : "")).join("\n").trimEnd();
