// The audit: what happened, the newest first, narrowed down as one likes; and whether it is as it was written.
import { html, useEffect, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { epoch } from "../lib/live.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Text, oneLine } from "../lib/text.js";
import { Ago, Empty, Facts, Hash, Loading, Pre, Trouble, plural, pretty, useDoing } from "../lib/ui.js";
import { Verify } from "./verify.js";
import { KINDS, told } from "./auditing.js";

const PAGE = 50;
const FIELDS = ["task", "by", "kind", "since", "request"];

const questionOf = (query) => {
  const said = new URLSearchParams(FIELDS.map((name) => [name, query.get(name) ?? ""]).filter(([, value]) => value));
  if (query.get("system") === "1") said.set("system", "1");
  return said.toString();
};

const isDay = (text) => /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(`${text}T00:00`));

// As the server is asked: a day begins where it does for the reader.
function askedOf(query) {
  const said = new URLSearchParams(questionOf(query));
  const day = said.get("since") ?? "";
  if (isDay(day)) said.set("since", new Date(`${day}T00:00`).toISOString());
  return said.toString();
}

const wide = matchMedia("(min-width: 700px)");

// As the fields have it: a kind by the name that people read.
const plain = (query) => {
  const { kind, ...fields } = Object.fromEntries(new URLSearchParams(questionOf(query)));
  // A field for a day takes nothing else.
  if (!isDay(fields.since ?? "")) delete fields.since;
  return kind ? { ...fields, kind: KINDS[kind] ?? kind } : fields;
};

const kindOf = (name) =>
  Object.entries(KINDS).find(([, told]) => told.toLowerCase() === name.toLowerCase())?.[0] ?? name;

function Filters({ query }) {
  const [draft, setDraft] = useState(plain(query));
  useEffect(() => setDraft(plain(query)), [questionOf(query)]);
  const field = (name, title, more = {}) => html`<div><label for="f-${name}">${title}</label>
    <input id="f-${name}" spellcheck=${false} autocapitalize="off" value=${draft[name] ?? ""}
        onInput=${(event) => setDraft({ ...draft, [name]: event.target.value })} ...${more} /></div>`;
  const submit = (event) => {
    event.preventDefault();
    const { kind = "", ...fields } = Object.fromEntries(
      Object.entries(draft).map(([name, value]) => [name, value.trim()]));
    go(link("audit", [], { ...fields, kind: kindOf(kind) }));
  };
  return html`<details class="card filters" open=${Boolean(questionOf(query)) || wide.matches}>
    <summary>Narrow down</summary>
    <form onSubmit=${submit} role="search" aria-label="Narrow down">
    <div class="fields">
      ${field("task", "Task", { placeholder: "t-…" })}${field("by", "By", { placeholder: "a name" })}
      ${field("kind", "What", { list: "kinds", placeholder: "any" })}
      <datalist id="kinds">${Object.entries(KINDS).map(([kind, name]) => html`
        <option key=${kind} value=${name} />`)}</datalist>
      ${field("since", "Since", { type: "date" })}${field("request", "Request", { placeholder: "r-…" })}
    </div>
    ${may("audit") && html`<label class="check">
      <input type="checkbox" checked=${draft.system === "1"}
          onChange=${(event) => setDraft({ ...draft, system: event.target.checked ? "1" : "" })} /> Only what belongs to
      no task: tokens, sign-ins, the policy, computers</label>`}
    <footer><button class="primary">Show</button>
      ${questionOf(query) && html`<a class="button" href=${link("audit")}>Everything</a>`}</footer>
  </form></details>`;
}

function Stream({ item, ofTask }) {
  const only = link("audit", [], ofTask ? { task: item.task_id } : { system: "1" });
  return html`${ofTask ? html`<a href=${link("tasks", [item.task_id])}>${item.task_id}</a>` : "what belongs to no task"}
    ${" "}<span class="muted">#${item.version}</span> <a href=${only}>only this</a>`;
}

function Item({ item }) {
  const [open, setOpen] = useState(false);
  const { fact, actor } = item;
  const { kind, ...fields } = fact;
  const ofTask = item.task_id !== "system";
  return html`<li><details onToggle=${(event) => setOpen(event.target.open)}>
    <summary><span class="audit-when muted"><${Ago} at=${item.at} /></span><span class="audit-what">
      <b>${KINDS[kind] ?? oneLine(kind, 60)}</b> <span class="audit-told">
        <${Text} value=${told(fact)} line=${240} /></span></span>
      <span class="audit-who muted">${oneLine(actor.kind === "system" ? "the orchestrator" : actor.id, 40)}
        ${item.redacted && html` <span class="badge odd"
          title="Secrets were taken out of what is shown">redacted</span>`}</span></summary>
    ${open && html`<div class="audit-more"><${Facts} rows=${[
      ["Kind", html`<code>${oneLine(kind, 60)}</code>`],
      ["By", html`${oneLine(actor.kind, 20)} <${Text} value=${actor.id} line=${64} />
        ${actor.auth && html` <span class="muted">(${oneLine(actor.auth, 30)})</span>`}`],
      ["At", html`<time datetime=${item.at}>${item.at}</time>`],
      [ofTask ? "Task" : "Stream", html`<${Stream} item=${item} ofTask=${ofTask} />`],
      ["Hash", html`<${Hash} value=${item.hash} />`],
      ["Before it", item.prev_hash ? html`<${Hash} value=${item.prev_hash} />` : "nothing"],
    ]} />
    ${item.redacted && html`<p class="muted small">Secrets were taken out, so the hash does not hold for what is shown.
      An admin gets the whole with <code>cc-orchestrator audit export --whole</code>.</p>`}
    <${Pre} value=${pretty(fields)} label="All fields" /></div>`}
  </details></li>`;
}

// Pages of the newest items that fit; more are read when they are wanted.
function useItems(question) {
  const since = useStore(epoch);
  const [state, set] = useState({ items: null, next: null, question: "", problem: null });
  const { busy, problem, doing } = useDoing();
  const read = async (after) => get(["/v1/audit?order=newest", `limit=${PAGE}`, question,
    after && `after=${encodeURIComponent(after)}`].filter(Boolean).join("&"));
  const first = () => {
    let over = false;
    read("").then(
      ({ items, next }) => over || set({ items, next, question, problem: null }),
      (failed) => over || set((before) => ({ ...before, items: before.question === question ? before.items : null,
        problem: failed, question })),
    );
    return () => { over = true; };
  };
  useEffect(first, [question, since]);
  const more = () => doing(async () => {
    const { items, next } = await read(state.next);
    set((before) => ({ ...before, items: [...before.items, ...items], next }));
  });
  const here = state.question === question;
  const { items = null, next = null, problem: failed = null } = here ? state : {};
  return { items, next, problem: problem ?? failed, busy, more, first };
}

export function Audit({ query }) {
  const { items, next, problem, busy, more, first } = useItems(askedOf(query));
  return html`<div class="page">
    <div class="head"><h1>Audit</h1><div class="tools">
      ${may("audit") && html`<a class="button" href=${link("audit", ["decisions"])}>How people decide</a>`}
      <button type="button" onClick=${first}>Look again</button></div></div>
    ${may("audit") ? html`<${Verify} />`
      : html`<p class="muted">You see what was done for your own tasks. Reviewers and admins see, and verify, all of
      it.</p>`}
    <${Filters} query=${query} />
    <${Trouble} problem=${problem?.undelivered && items ? null : problem} again=${first} />
    ${!items && !problem && html`<${Loading} rows=${6} />`}
    ${items?.length === 0 && html`<${Empty} title="Nothing of that kind">
      <p><a href=${link("audit")}>Show everything</a></p><//>`}
    ${items?.length > 0 && html`<ol class="rows audit" aria-label="What happened, the newest first">
      ${items.map((item) => html`<${Item} key=${item.item_id} item=${item} />`)}</ol>
      ${next ? html`<button type="button" class="more" disabled=${busy} onClick=${more}>
        ${busy ? "Reading…" : "Older"}</button>`
        : html`<p class="muted small">That is all: ${plural(items.length, "item")}.</p>`}`}
  </div>`;
}
