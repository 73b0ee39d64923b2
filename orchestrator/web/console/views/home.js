// The first view: what is there, what goes on, and what it came to. Each part leads to its own view.
import { html, useEffect, useState } from "../lib/html.js";
import { atWork, useOpenTasks } from "../lib/computers.js";
import { later } from "../lib/later.js";
import { live, onHint } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { oneLine } from "../lib/text.js";
import { Empty, Icon, Loading, Trouble, plural } from "../lib/ui.js";
import { Plots } from "./plots.js";
import { Start } from "./start.js";
import { Tiles, inOrder } from "./tiles.js";
import { Timeline } from "./timeline.js";

const WorldMap = later("views/map.js", "WorldMap");

const TASKS = 20, HOURS = 24;
// A tile costs the computer pictures while somebody looks: the others are in the list of computers.
const MOST_TILES = 12;

// Links to the groups whose people one may freeze; nothing for somebody who may not.
function ClassLinks() {
  const { value } = useReading(may("freeze") ? "/v1/groups" : null);
  return html`${(value?.groups ?? []).map(({ name }) => html`<a key=${name} class="button"
      href=${link("class", [name])}>Class ${oneLine(name, 40)}</a>`)}`;
}

const Stat = ({ address, value, name, note, look }) => html`<li><a class="stat ${look ?? ""}" href=${address}>
  <b>${value}</b><span>${name}${note && html`<small>${note}</small>`}</span></a></li>`;

function Stats({ computers, open, trends }) {
  const { requests, questions } = useStore(live);
  const online = computers.filter((one) => one.state === "online").length;
  const frozen = computers.filter((one) => one.state === "frozen").length;
  const waits = requests.length + questions.length;
  const ended = (name) => trends?.buckets.reduce((all, one) => all + one[name], 0) ?? 0;
  const bad = ended("failed") + ended("unverified");
  return html`<ul class="stats" aria-label="At a glance">
    <${Stat} address=${link("approvals")} value=${waits} name="Waiting for you" look=${waits ? "warn" : ""} />
    <${Stat} address=${link("tasks")} value=${open.length} name="Tasks under way" />
    <${Stat} address=${link("computers")} value=${online} name="Computers online"
        note=${frozen ? `${frozen} frozen` : `of ${computers.length}`} look=${frozen ? "bad" : ""} />
    <${Stat} address=${link("tasks", [], { status: "Completed" })} value=${ended("completed")} name="Completed in 24 h"
        note=${bad ? `${bad} failed or unverified` : ""} />
  </ul>`;
}

function Computers({ computers, open, times }) {
  const shown = inOrder(computers).slice(0, MOST_TILES);
  return html`<section class="part" aria-labelledby="computers-here">
    <div class="head"><h2 id="computers-here">Computers</h2>
      <a href=${link("computers")}>All ${shown.length < computers.length ? computers.length : "computers"}</a>
    </div>
    <${Tiles} computers=${shown} atWork=${atWork(open)} times=${times} /></section>`;
}

function NoTask() {
  return html`<div class="card"><${Empty} title="No task in the last day">
    <p>Say what is to be done on a computer in the game, such as “Write a program that counts to ten and run
      it”.</p>
    ${may("submit") && html`<p><a class="button primary" href=${link("tasks", [], { new: "1" })}>
      <${Icon} name="plus" /> New task</a></p>`}<//></div>`;
}

function Tasks({ told }) {
  return html`<section class="part" aria-labelledby="tasks-here">
    <div class="head"><h2 id="tasks-here">Tasks</h2><a href=${link("tasks")}>All tasks</a></div>
    ${told.tasks.length ? html`<${Timeline} tasks=${told.tasks} />` : html`<${NoTask} />`}
    ${told.left_out > 0 && html`<p class="muted small">${plural(told.left_out, "long task")} cannot be shown here.</p>`}
  </section>`;
}

export function Home() {
  const [by, setBy] = useState("hour");
  const computers = useReading("/v1/computers");
  const timeline = useReading(`/v1/timeline?limit=${TASKS}&hours=${HOURS}`);
  const today = useReading("/v1/trends?by=hour");
  const month = useReading(by === "day" ? "/v1/trends?by=day" : null);
  useEffect(() => onHint("computers", computers.again), []);
  useEffect(() => onHint("tasks", () => {
    timeline.again();
    today.again();
    month.again();
  }), []);
  const open = useOpenTasks();
  const list = computers.value?.computers, told = timeline.value;
  const problem = [computers, timeline].find((one) => one.problem && !one.value);
  const times = new Map((told?.tasks ?? []).map((task) => [task.task_id, task]));
  const placed = list?.some((one) => one.position);
  return html`<div class="page home">
    <div class="head"><h1>Home</h1><div class="tools"><${ClassLinks} />
      ${may("pair") && list?.length > 0 && html`<a class="button only-wide" href=${link("pairing")}>
        <${Icon} name="plus" /> Pair a computer</a>`}
      ${may("submit") && html`<a class="button primary" href=${link("tasks", [], { new: "1" })}>
        <${Icon} name="plus" /> New task</a>`}</div></div>
    <${Trouble} problem=${problem?.problem} again=${problem?.again} />
    ${(!list || !told) && !problem && html`<${Loading} rows=${5} />`}
    ${list && told && html`
      ${(list.length > 0 || told.tasks.length > 0) && html`<${Stats} computers=${list} open=${open}
        trends=${today.value} />`}
      ${list.length ? html`<${Computers} computers=${list} open=${open} times=${times} />` : html`<${Start} />`}
      ${(list.length > 0 || told.tasks.length > 0) && html`<${Tasks} told=${told} />
        <${Plots} trends=${by === "day" ? month.value : today.value} by=${by} onBy=${setBy} />`}
      ${placed && html`<section class="part" aria-labelledby="map-here">
        <div class="head"><h2 id="map-here">Map</h2>
          <span class="muted small">Where each knew itself last, from above; north is up</span></div>
        <${WorldMap} computers=${list} /></section>`}`}
  </div>`;
}
