// A computer's backups: what was kept and when, and one more.
import { html, useState } from "../lib/html.js";
import { id, post } from "../lib/api.js";
import { useReading } from "../lib/reading.js";
import { may } from "../lib/session.js";
import { Text } from "../lib/text.js";
import { Ago, Trouble, plural, useDoing } from "../lib/ui.js";

const SHOWN = 5;
const UNITS = [["MB", 1_000_000], ["kB", 1000]];

export function size(bytes) {
  const [unit, each] = UNITS.find(([, least]) => bytes >= least) ?? ["bytes", 1];
  return `${each === 1 ? bytes : (bytes / each).toFixed(1)} ${unit}`;
}

const Row = ({ one }) => html`<li><span><${Ago} at=${one.at} /> by <${Text} value=${one.by} line=${64} />${one.note && html` · <${Text} value=${one.note} line=${120} />`}</span>
  <span class="row-meta muted">${plural(one.files, "file")}, ${size(one.bytes)} · <code>${one.backup_id}</code>${one.skipped.length > 0 && ` · ${plural(one.skipped.length + one.skipped_more, "file")} left out`}</span></li>`;

export function Backups({ computer, online }) {
  const path = `/v1/computers/${id(computer)}/backups`;
  const { value, problem: unread, again } = useReading(path);
  const [all, setAll] = useState(false);
  const { busy, problem, doing } = useDoing();
  const make = () => doing(async () => {
    await post(path, { note: "from the console" });
    again();
  });
  const rows = value?.backups ?? [];
  return html`<section class="part" aria-label="Backups">
    <div class="head"><h2>Backups</h2>${may("submitter") && html`<button type="button" disabled=${busy || !online} onClick=${make}>${busy ? "Reading its files…" : "Back up now"}</button>`}</div>
    <${Trouble} problem=${problem ?? (unread?.undelivered ? null : unread)} />
    ${value && !rows.length && html`<p class="muted">None yet. A backup keeps every file as it is now, so that all of it, or one file, can be put back.</p>`}
    ${rows.length > 0 && html`<ul class="rows plain">${(all ? rows : rows.slice(0, SHOWN)).map((one) => html`<${Row} key=${one.backup_id} one=${one} />`)}</ul>
      ${rows.length > SHOWN && !all && html`<button type="button" class="more" onClick=${() => setAll(true)}>Show all ${rows.length}</button>`}
      <p class="muted small">To put one back, or look what that would do first: <code>cc-orchestrator restore ${computer} BACKUP --dry-run</code></p>`}
  </section>`;
}
