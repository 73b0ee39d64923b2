// Long texts as blocks of lines: what is cut at first comes block by block when somebody wants it, so that the page
// goes on living, and a block is drawn anew only where it changed.
import { Component, html, useEffect, useState } from "./html.js";

export const AT_FIRST = 1200;
const BLOCK = 400;

// {all, shown, open}: whether all of these lines are wanted, how many are on the page, and what wants all of them.
// `onWhole` is told when the last is there; of other lines anew.
export function useLines(lines, onWhole) {
  const total = lines.length;
  const [all, setAll] = useState(false);
  const [come, setCome] = useState(AT_FIRST);
  useEffect(() => {
    if (!all || come >= total) return undefined;
    const next = requestAnimationFrame(() => setCome(come + BLOCK));
    return () => cancelAnimationFrame(next);
  }, [all, come, total]);
  const whole = all && come >= total;
  useEffect(() => { if (whole) onWhole?.(); }, [whole, lines]);
  return { all, shown: all ? come : AT_FIRST, open: () => setAll(true) };
}

// `lines` in tables of `kind`; `draw` makes the row of one, and is another function when all have to be drawn anew.
export function Blocks({ lines, kind = "", head = null, draw }) {
  const starts = Array.from({ length: Math.ceil(lines.length / BLOCK) }, (_, i) => i * BLOCK);
  return starts.map((from) => html`<${Block} key=${from} lines=${lines.slice(from, from + BLOCK)} from=${from}
      kind=${kind} head=${head} draw=${draw} />`);
}

class Block extends Component {
  shouldComponentUpdate({ lines, kind, draw }) {
    const mine = this.props;
    return kind !== mine.kind || draw !== mine.draw || lines.length !== mine.lines.length
      || lines.some((line, i) => line !== mine.lines[i]);
  }

  render({ lines, from, kind, head, draw }) {
    return html`<div class="block ${lines.length === BLOCK ? "full" : ""}"><table class="code ${kind}">${head}<tbody>
      ${lines.map((line, i) => draw(line, from + i))}</tbody></table></div>`;
  }
}
