// All computers, as they are now, and the first steps for a person who has none.
import { html, useEffect, useState } from "../lib/html.js";
import { STATES, State, family, useAtWork } from "../lib/computers.js";
import { onHint } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { keepPlace, link, useKeptPlace } from "../lib/route.js";
import { may } from "../lib/session.js";
import { inOrder, oneLine } from "../lib/text.js";
import { Ago, Empty, Icon, Loading, Status, Trouble } from "../lib/ui.js";
import { Start } from "./start.js";

const ORDER = { frozen: 0, online: 1, away: 2 };
const MANY = 8;

function Card({ one, task }) {
  const label = one.label && one.label !== one.computer ? oneLine(one.label, 40) : "";
  const what = [family(one), one.client && `client ${oneLine(one.client, 20)}`].filter(Boolean).join(" · ");
  return html`<li class="computer-card ${one.state}">
    <a href=${link("computers", [one.computer])}>
      <span class="row-top"><b>${oneLine(one.computer, 64)}</b><${State} state=${one.state} /></span>
      ${label && html`<span class="row-on">${label}</span>`}
      <span class="row-meta muted">${what || (one.seen_at ? "not here since the server started" : "never was here")}
        </span>
      <span class="row-meta muted">${one.owner ? `paired by ${oneLine(one.owner, 40)}` : "paired by nobody known"}
        ${one.seen_at && html` · here <${Ago} at=${one.seen_at} />`}</span>
    </a>
    ${task && html`<a class="at-work" href=${link("tasks", [task.task_id])}>
      <${Status} status=${task.status} />
        <span>${oneLine(task.prompt, 60)}</span></a>`}
  </li>`;
}

const fits = (one, text) => [one.computer, one.label ?? "", one.family ?? "", one.owner ?? ""]
  .some((part) => part.toLowerCase().includes(text));

function Filters({ list, state, query }) {
  const counted = (name) => list.filter((one) => one.state === name).length;
  const chips = [["", "All", list.length],
    ...Object.entries(STATES).map(([name, [title]]) => [name, title, counted(name)])];
  return html`<nav class="chips" aria-label="Which computers">
    ${chips.filter(([name, , count]) => !name || count || name === state).map(([name, title, count]) => html`
    <a href=${link("computers", [], { ...query, state: name })} aria-current=${name === state ? "true" : null}>
      ${title} <span class="muted">${count}</span></a>`)}</nav>`;
}

export function Computers({ query }) {
  const { value, problem, again } = useReading("/v1/computers");
  const [text, setText] = useState("");
  const tasks = useAtWork();
  useEffect(() => onHint("computers", again), []);
  useKeptPlace(Boolean(value));
  const list = value?.computers;
  const state = Object.hasOwn(STATES, query.get("state") ?? "") ? query.get("state") : "";
  const wanted = text.trim().toLowerCase();
  const shown = list?.filter((one) => (!state || one.state === state) && (!wanted || fits(one, wanted)))
    .sort((a, b) => ORDER[a.state] - ORDER[b.state]
      || inOrder(a.computer, b.computer));
  return html`<div class="page">
    <div class="head"><h1>Computers</h1>
      ${may("pair") && html`<a class="button primary" href=${link("pairing")}>
        <${Icon} name="plus" /> Pair a computer</a>`}</div>
    <${Trouble} problem=${problem?.undelivered && list ? null : problem} again=${again} />
    ${!list && !problem && html`<${Loading} rows=${4} />`}
    ${list?.length === 0 && html`<${Start} />`}
    ${list?.length > 0 && html`
      <${Filters} list=${list} state=${state} query=${{}} />
      ${list.length > MANY && html`<div><label class="sr" for="which">Find a computer</label>
        <input id="which" type="search" placeholder="Find by name, label, kind or owner" value=${text}
            onInput=${(event) => setText(event.target.value)} /></div>`}
      ${shown.length ? html`<ul class="computer-cards" aria-label="Computers" onClick=${keepPlace}>
        ${shown.map((one) => html`<${Card} key=${one.computer} one=${one} task=${tasks.get(one.computer)} />`)}</ul>`
        : html`<${Empty} title="None of these">
          <p><a href=${link("computers")} onClick=${() => setText("")}>Show all computers</a></p><//>`}`}
  </div>`;
}
