// A text of several lines with their numbers; a long one is at first cut, and whoever shows it is told when it is
// whole.
import { html, useState } from "./html.js";
import { linesOf } from "./lua.js";
import { Text } from "./text.js";

const AT_FIRST = 1200;

export const isLongText = (text) => text.split("\n").length > AT_FIRST;

export function Code({ text, lua, label, onWhole }) {
  const [all, setAll] = useState(false);
  const lines = text.replace(/\n$/, "").split("\n");
  const kept = all ? lines : lines.slice(0, AT_FIRST);
  const shown = lua ? linesOf(kept.join("\n")) : kept.map((line) => html`<${Text} value=${line} />`);
  return html`<figure class="diff wrap">
    ${label && html`<figcaption><span class="what">${label}</span><span class="muted">${lines.length} lines</span>
        </figcaption>`}
    <div class="scroll" tabindex="0" role="group" aria-label=${label || "Text"}>
      <table class="code"><tbody>${shown.map((line, i) => html`<tr><td class="no">${i + 1}</td><td class="txt">${line}
          </td></tr>`)}</tbody></table>
    </div>
    ${kept.length < lines.length && html`<button type="button" class="more"
        onClick=${() => { setAll(true); onWhole?.(); }}>
      Show the other ${lines.length - kept.length} lines</button>`}
  </figure>`;
}
