// How people decide: figures of the last days, by rule and by person.
import { html } from "../lib/html.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { Text } from "../lib/text.js";
import { Ago, Empty, Loading, Trouble, plural, span } from "../lib/ui.js";

const DAYS = 30;

const within = (seconds) => (seconds === null ? "–" : seconds < 1 ? "< 1 s" : span(seconds));

// The share is of the calls that people decided: nobody decides what expires or is dropped.
function rejected(one) {
  const decided = one.approved + one.rejected + one.answered;
  return decided ? `${one.rejected} (${Math.round((100 * one.rejected) / decided)}%)` : one.rejected;
}

const COLUMNS = [
  ["Calls", (one) => one.calls], ["Rejected", rejected], ["Expired", (one) => one.expired],
  ["Half within", (one) => within(one.median_s)], ["95% within", (one) => within(one.p95_s)],
];

function Table({ title, head, rows }) {
  return html`<div class="card"><table class="decisions"><caption>${title}</caption>
    <thead><tr><th scope="col">${head}</th>${COLUMNS.map(([name]) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.map((one) => html`<tr key=${one.name}><th scope="row"><${Text} value=${one.name} line=${60} /></th>
      ${COLUMNS.map(([, of]) => html`<td>${of(one)}</td>`)}</tr>`)}</tbody></table></div>`;
}

function Figures({ told }) {
  if (!told.all.calls) return html`<${Empty} title="No call that waited for people ended since then" />`;
  return html`<${Table} title="By rule" head="Rule" rows=${[...told.by_rule, { ...told.all, name: "all calls" }]} />
    ${told.by_person.length > 0 && html`<${Table} title="By person" head="Person" rows=${told.by_person} />`}`;
}

export function Decisions() {
  const { value: told, problem, again } = useReading(may("audit") ? `/v1/analytics?days=${DAYS}` : null);
  return html`<div class="page narrow">
    <div class="head"><h1>How people decide</h1><div class="tools"><a class="button" href=${link("audit")}>
      To the audit</a></div></div>
    ${!may("audit") && html`<p class="muted">People who may read the audit see this.</p>`}
    <${Trouble} problem=${problem?.undelivered && told ? null : problem} again=${again} />
    ${may("audit") && !told && !problem && html`<${Loading} rows=${4} />`}
    ${told && html`<p class="muted small">Calls that waited for people and ended since <${Ago} at=${told.since} />, with
        the time from the request to the decision.
        ${told.left_out > 0 && ` Left out: ${plural(told.left_out, "task")} with a long or unreadable journal.`}</p>
      <${Figures} told=${told} />`}
  </div>`;
}
