// What is being read from computers now: a bar for each where it matters, and a note in the frame.
import { html, useEffect } from "../lib/html.js";
import { link } from "../lib/route.js";
import { useStore } from "../lib/store.js";
import { oneLine } from "../lib/text.js";
import { lookSoon, of, transfers } from "../lib/transfers.js";
import { size } from "../lib/ui.js";

const WHY = { backup: "for a backup", rehearsal: "for a rehearsal" };

const title = (one) => `Reading ${oneLine(one.computer, 64)}${WHY[one.what] ? ` ${WHY[one.what]}` : ""}`;

const amount = (one) => (one.of_files === null
  ? "looking at what is there"
  : `${one.files} of ${one.of_files} files, ${size(one.bytes)}`);

// A bar without an end as long as nobody knows how much there is to read.
function Bar({ one }) {
  const known = one.of_files === null ? {} : { value: one.files, max: Math.max(1, one.of_files) };
  return html`<progress aria-label=${title(one)} aria-valuetext=${amount(one)} ...${known}></progress>`;
}

// Those at these computers; nothing where there are none. `soon`: one is about to begin.
export function Transfers({ computers, soon = false }) {
  const rows = of(useStore(transfers), computers);
  useEffect(() => { if (soon) lookSoon(); }, [soon]);
  if (!rows.length) return null;
  return html`<ul class="transfers" aria-label="What is being read">${rows.map((one) => html`<li key=${one.transfer_id}>
    <span>${title(one)}</span><span class="muted">${amount(one)}</span><${Bar} one=${one} /></li>`)}</ul>`;
}

// In the frame: the oldest of all, and how many more there are.
export function GoingOn() {
  const [first, ...more] = useStore(transfers);
  if (!first) return null;
  return html`<div class="going" title="${title(first)}: ${amount(first)}">
    <a class="only-wide" href=${link("computers", [first.computer])}>${title(first)}
      ${more.length > 0 && ` and ${more.length} more`}</a>
    <${Bar} one=${first} /></div>`;
}
