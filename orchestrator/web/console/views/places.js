// Places that something changed: what became of each, with its diff where there is one.
import { html, useState } from "../lib/html.js";
import { Diff } from "../lib/diff.js";
import { isLua } from "../lib/lua.js";
import { Text, oneLine } from "../lib/text.js";

const AT_FIRST = 20;

export function word({ before, after }) {
  if (after === null) return "may have been changed";
  const what = [before, after].includes("directory") ? " directory" : "";
  if (before === "absent") return `new${what}`;
  return after === "absent" ? `removed${what}` : "changed";
}

const LOOK = { new: "good", removed: "bad", may: "warn" };

// `folded`: a reader who wants to see its diff opens it.
function Change({ one, name, folded }) {
  const said = word(one);
  const badge = html`<span class="badge ${LOOK[said.split(" ")[0]] ?? ""}">${said}</span>`;
  const head = html`<code><${Text} value=${name} /></code> ${badge}${one.more}`;
  const diff = one.diff && html`<${Diff} diff=${one.diff} lua=${isLua(one.path)} label=${oneLine(name, 100)}
      badge=${!folded && badge} />`;
  if (folded && diff) return html`<${Folded} head=${head}>${diff}<//>`;
  return html`${!diff && html`<p class="line">${head}</p>`}
    ${one.binary && html`<p class="muted prose"><${Text} value=${one.binary} /></p>`}${diff}
    ${one.cut && html`<p class="muted">Only the beginning of this diff is shown.</p>`}`;
}

function Folded({ head, children }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary class="line">${head}</summary>
    ${open && children}</details>`;
}

// `changes`: {place, computer?, path, before, after, diff?, cut?, binary?, more?}; `left`: so many more are not among
// them.
export function Places({ changes, folded, left = 0, label }) {
  const [all, setAll] = useState(false);
  // On one computer its name says nothing.
  const alone = new Set(changes.map((one) => one.computer)).size === 1;
  const shown = all ? changes : changes.slice(0, AT_FIRST);
  return html`<ul class="changes" aria-label=${label}>${shown.map((one) => html`<li key=${one.place}>
      <${Change} one=${one} name=${alone ? one.path : one.place} folded=${folded} /></li>`)}</ul>
    ${shown.length < changes.length && html`<button type="button" class="more"
        onClick=${() => setAll(true)}>Show the other ${changes.length - shown.length} places</button>`}
    ${left > 0 && html`<p class="muted">And ${left} more places.</p>`}`;
}
