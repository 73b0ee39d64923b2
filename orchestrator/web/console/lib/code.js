// A text of several lines with their numbers; a long one is at first cut, and the view that shows it is told when it is
// whole.
import { html, useCallback, useMemo } from "./html.js";
import { AT_FIRST, Blocks, useLines } from "./blocks.js";
import { linesOf } from "./lua.js";
import { Text } from "./text.js";
import { plural } from "./ui.js";

const split = (text) => text.replace(/\n$/, "").split("\n");

export const isLongText = (text) => split(text).length > AT_FIRST;

export function Code({ text, lua, label, onWhole }) {
  const lines = useMemo(() => split(text), [text]);
  const { all, shown, open } = useLines(lines, onWhole);
  const rows = useMemo(() => {
    const kept = all ? lines : lines.slice(0, AT_FIRST);
    return lua ? linesOf(kept.join("\n")) : kept.map((line) => html`<${Text} value=${line} />`);
  }, [lines, all, lua]);
  const draw = useCallback((row, i) => html`<tr><td class="no">${i + 1}</td><td class="txt">${row}</td></tr>`, []);
  return html`<figure class="diff wrap">
    ${label && html`<figcaption><span class="what">${label}</span>
      <span class="muted">${plural(lines.length, "line")}</span></figcaption>`}
    <div class="scroll" tabindex="0" role="group" aria-label=${label || "Text"}>
      <${Blocks} lines=${rows.slice(0, shown)} draw=${draw} /></div>
    ${lines.length > shown && html`<button type="button" class="more" aria-disabled=${all} onClick=${open}>
      ${all ? "Reading" : "Show"} the other ${plural(lines.length - shown, "line")}</button>`}
  </figure>`;
}
