// A computer's backups: what was kept and when, one more, and putting one back.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { id, post } from "../lib/api.js";
import { useReading } from "../lib/reading.js";
import { may } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Text } from "../lib/text.js";
import { of, transfers } from "../lib/transfers.js";
import { Ago, Trouble, plural, size, useDoing } from "../lib/ui.js";
import { RestoreDialog } from "./restore.js";
import { Transfers } from "./transfers.js";

const SHOWN = 5;

function Row({ one, onOpen }) {
  const left = one.skipped.length + one.skipped_more;
  return html`<li class="backup"><div>
      <span><${Ago} at=${one.at} /> by <${Text} value=${one.by} line=${64} />
        ${one.note && html` · <${Text} value=${one.note} line=${120} />`}</span>
      <span class="row-meta muted">${plural(one.files, "file")}, ${size(one.bytes)} · <code>${one.backup_id}</code>
        ${left > 0 && ` · ${plural(left, "path")} left out`}</span></div>
    <button type="button" class="small" aria-label="Look into ${one.backup_id}" onClick=${onOpen}>Look into it</button>
    </li>`;
}

export function Backups({ computer, online }) {
  const path = `/v1/computers/${id(computer)}/backups`;
  const { value, problem: unread, again } = useReading(path);
  const [all, setAll] = useState(false);
  const [opened, setOpened] = useState(null);
  const { busy, problem, doing } = useDoing();
  const make = () => doing(async () => {
    await post(path, { note: "from the console" });
    again();
  });
  const before = useRef(0);
  const going = of(useStore(transfers), [computer]).length;
  // One that somebody made elsewhere may be over now.
  useEffect(() => {
    if (before.current && !going) again();
    before.current = going;
  }, [going]);
  const rows = value?.backups ?? [];
  return html`<section class="part" aria-label="Backups">
    <div class="head"><h2>Backups</h2>${may("submit") && html`<button type="button" disabled=${busy || !online}
        onClick=${make}>${busy ? "Reading its files…" : "Back up now"}</button>`}</div>
    <${Transfers} computers=${[computer]} soon=${busy} />
    <${Trouble} problem=${problem ?? (unread?.undelivered ? null : unread)} />
    ${value && !rows.length && html`<p class="muted">None yet. A backup keeps every file as it is now, so that all of
      it, or one file, can be put back.</p>`}
    ${rows.length > 0 && html`<ul class="rows plain">${(all ? rows : rows.slice(0, SHOWN)).map((one) => html`<${Row}
        key=${one.backup_id} one=${one} onOpen=${() => setOpened(one)} />`)}</ul>
      ${rows.length > SHOWN && !all && html`<button type="button" class="more"
          onClick=${() => setAll(true)}>Show all ${rows.length}</button>`}`}
    ${opened && html`<${RestoreDialog} computer=${computer} backup=${opened} onClose=${() => setOpened(null)} />`}
  </section>`;
}
