// All tasks, the newest first, a page of them at a time; and a new one.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { onHint } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { keepPlace, link, useKeptPlace } from "../lib/route.js";
import { may } from "../lib/session.js";
import { oneLine } from "../lib/text.js";
import { Ago, Empty, Icon, Loading, STATUS, Status, Trouble, statusOf } from "../lib/ui.js";
import { StartWithout } from "./start.js";
import { Submit, isDrafted } from "./submit.js";

const PAGE = 50;
// Where each page that was looked at begins, by its status and number: a page knows only where the next one begins.
const begins = new Map();
const FILTERS = ["", "Paused", "Running", "Queued", "Completed", "Failed", "Canceled"];

const Row = ({ task }) => html`<li><a href=${link("tasks", [task.task_id])}>
  <span class="row-top"><${Status} status=${statusOf(task)} /><span
      class="row-prompt">${oneLine(task.prompt, 160)}</span></span>
  <span class="row-meta muted">
    ${task.computers.map((one) => oneLine(one, 40)).join(", ") || "no computer"} · ${oneLine(task.user_id,
    40)} · <${Ago} at=${task.created_at} />${task.pinned && " · kept"}
    ${task.status_reason && task.status === statusOf(task) && html` · ${oneLine(task.status_reason, 120)}`}</span></a>
  </li>`;

function None({ status, page }) {
  if (page) return html`<${Empty} title="There are no older ones"><p><a
      href=${link("tasks", [], { status })}>Show the newest</a></p><//>`;
  if (status) return html`<${Empty} title="None of these"><p><a href=${link("tasks")}>Show all tasks</a></p><//>`;
  return html`<${Empty} title="No task yet">
    <p>Say what is to be done on a computer in the game, such as “Write a program that counts to ten and run it”. What
      it wants to change is asked about first.</p><//>
    <${StartWithout} />`;
}

function Pages({ page, next, status }) {
  if (!page && !next) return null;
  const at = (number, after) => link("tasks", [], after ? { status, page: number, after } : { status });
  return html`<nav class="pages" aria-label="Pages">
    ${page > 0 ? html`<a class="button" href=${at(page - 1, begins.get(`${status} ${page - 1}`))}>Newer</a>`
      : html`<span></span>`}
    <span class="muted">${page * PAGE + 1} to ${page * PAGE + PAGE}</span>
    ${next ? html`<a class="button" href=${at(page + 1, next)}>Older</a>` : html`<span></span>`}</nav>`;
}

export function Tasks({ query }) {
  const status = FILTERS.includes(query.get("status")) ? query.get("status") : "";
  const after = query.get("after") ?? "";
  const page = after ? Math.max(1, Number.parseInt(query.get("page") ?? "1", 10) || 1) : 0;
  begins.set(`${status} ${page}`, after);
  const { value, problem, again } = useReading(`/v1/tasks?limit=${PAGE}${status ? `&status=${status}` : ""}${
    after ? `&after=${encodeURIComponent(after)}` : ""}`);
  const [writing, setWriting] = useState(query.get("new") === "1" || isDrafted());
  const opens = useRef(null), was = useRef(writing);
  useEffect(() => {
    // After the form is closed, the focus is on the button that opens it.
    if (was.current && !writing) opens.current?.focus();
    was.current = writing;
  }, [writing]);
  useEffect(() => onHint("tasks", again), []);
  useEffect(() => { if (query.get("new") === "1") setWriting(true); }, [query]);
  useKeptPlace(Boolean(value));
  const rows = value?.tasks;
  return html`<div class="page narrow">
    <div class="head"><h1>Tasks</h1>${may("submit") && !writing && html`<button type="button" class="primary"
        ref=${opens} onClick=${() => setWriting(true)}><${Icon} name="plus" /> New task</button>`}</div>
    ${writing && may("submit") && html`<${Submit} onClose=${() => setWriting(false)} />`}
    <nav class="chips" aria-label="Which tasks">${FILTERS.map((name) => html`<a
        href=${link("tasks", [], { status: name })} aria-current=${name === status ? "true" : null}>
        ${STATUS[name] ?? "All"}</a>`)}
        </nav>
    <${Trouble} problem=${problem?.undelivered && rows ? null : problem} again=${again} />
    ${!rows && !problem && html`<${Loading} rows=${6} />`}
    ${rows && (rows.length ? html`<ul class="rows" aria-label="Tasks"
        onClick=${keepPlace}>${rows.map((task) => html`<${Row}
        key=${task.task_id} task=${task} />`)}</ul>` : html`<${None} status=${status} page=${page} />`)}
    ${rows?.length > 0 && html`<${Pages} page=${page} next=${value.next} status=${status} />`}
  </div>`;
}
