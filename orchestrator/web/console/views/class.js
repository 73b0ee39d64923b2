// A class at a glance: for each person a tile with their screen, what they work on, what they are asked, and a brake.
import { html, useEffect, useState } from "../lib/html.js";
import { post } from "../lib/api.js";
import { useOpenTasks } from "../lib/computers.js";
import { live, onHint } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { may, session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { inOrder, oneLine } from "../lib/text.js";
import { Empty, Loading, Status, Trouble, plural, useDoing } from "../lib/ui.js";
import { Thumbnail } from "../screen/thumbnail.js";
import { AtWork } from "./tiles.js";

const MOST_REASON = 200;

// Beyond so many people the screens are small at first, so that all fit on one page.
const MOST_LARGE = 9;
const SIZE = "class screens";

// Whether the screens are large enough to read: as somebody chose in this browser, else by the number of people.
function useLarge(count) {
  const [chosen, choose] = useState(localStorage.getItem(SIZE));
  const large = chosen ? chosen === "large" : count <= MOST_LARGE;
  const turn = () => {
    const next = large ? "small" : "large";
    localStorage.setItem(SIZE, next);
    choose(next);
  };
  return [large, turn];
}

// The freeze that holds for a person: their own, or one of their group or of everybody.
const freezeOf = (freezes, person, group) => freezes.find(({ name }) => name === person)
  ?? freezes.find(({ name }) => name === `group:${group}` || name === "*");

function Doing({ task }) {
  const { questions } = useStore(live);
  const asked = task && questions.find((one) => one.task_id === task.task_id);
  if (!task) return html`<p class="at-work muted">No task</p>`;
  if (!asked) return html`<${AtWork} task=${task} />`;
  return html`<a class="at-work" href=${link("approvals", [asked.question_id])}><${Status} status="Paused" />
    <span class="at-work-says"><b>asks</b> · ${oneLine(asked.question, 120)}</span></a>`;
}

function Tile({ person, computer, task, freeze, onFreeze, busy }) {
  const own = freeze?.name === person;
  const name = oneLine(person, 40);
  const screen = computer
    ? html`<a class="tile-look" href=${link("computers", [computer.computer])} aria-label="The screen of ${name}">
        <${Thumbnail} computer=${computer.computer} online=${computer.state === "online"} /></a>`
    : html`<div class="thumbnail"><span>No computer</span></div>`;
  return html`<li class="tile ${freeze ? "frozen" : ""}">${screen}
    <div class="tile-name"><b>${name}</b>${freeze && html`<span class="badge bad">Frozen</span>`}
      ${onFreeze && (!freeze || own) && html`<button type="button" class="small" disabled=${busy}
        aria-label="${own ? "Unfreeze" : "Freeze"} ${name}"
        onClick=${() => onFreeze(!own, { person })}>${own ? "Unfreeze" : "Freeze"}</button>`}</div>
    <${Doing} task=${task} /></li>`;
}

// The computer that belongs to a person, else the one that their task works on.
const computerOf = (computers, person, task) => computers.find((one) => one.belongs_to === person)
  ?? computers.find((one) => task?.computers.includes(one.computer));

function useQueued() {
  const queued = useReading("/v1/tasks?status=Queued&limit=300");
  useEffect(() => onHint("tasks", queued.again), []);
  return queued.value?.tasks ?? [];
}

// Why there is no tile to see.
function Nobody({ group, known, freezes }) {
  if (!freezes) return html`<${Empty} title="Only a teacher sees a class">
    <p>Your role does not let you look at other people and freeze them. Your own tasks are under
      ${" "}<a href=${link("tasks")}>Tasks</a>.</p><//>`;
  if (!known) return html`<${Empty} title="There is no such group, or you are not in it">
    <p>The page <a href=${link("people")}>People</a> lists your groups.</p><//>`;
  return html`<${Empty} title="Nobody else is in this group">
    <p>An admin adds people: <code>cc-orchestrator groups add ${oneLine(group, 64)} PERSON</code></p><//>`;
}

export function Class({ group }) {
  const groups = useReading("/v1/groups");
  const freezes = useReading("/v1/freezes");
  const computers = useReading("/v1/computers");
  const [why, setWhy] = useState("");
  const { busy, problem, doing } = useDoing();
  const { name: me } = useStore(session);
  const tasks = [...useQueued(), ...useOpenTasks()];
  useEffect(() => onHint("computers", computers.again), []);
  useEffect(() => onHint("tasks", freezes.again), []);
  const found = groups.value?.groups.find((one) => one.name === group);
  const held = freezes.value?.freezes ?? [];
  const all = held.find(({ name }) => name === `group:${group}`);
  const onFreeze = (on, whom) => doing(async () => {
    await post(on ? "/v1/freeze" : "/v1/unfreeze", on ? { ...whom, reason: why.trim() } : whom);
    freezes.again();
  });
  const failed = [groups, freezes, computers].find((one) => one.problem && !one.value);
  const people = (found?.people ?? []).filter((one) => one !== me).sort(inOrder);
  const [large, turn] = useLarge(people.length);
  const freezing = may("freeze");
  return html`<div class="page">
    <div class="head"><h1>Class ${oneLine(group, 64)}</h1>
      ${people.length > 0 && html`<div class="tools">
        <button type="button" class="quiet" aria-pressed=${large} onClick=${turn}>Large screens</button>
        ${freezing && html`<form class="brake" onSubmit=${(event) => {
          event.preventDefault();
          onFreeze(!all, { group });
        }}><label class="sr" for="why">Why, for those who are frozen</label>
          <input id="why" maxlength=${MOST_REASON} placeholder="Why? They read it" value=${why}
              onInput=${(event) => setWhy(event.target.value)} />
          <button class=${all ? "primary" : "danger"} disabled=${busy}>${all ? "Unfreeze all" : "Freeze all"}</button>
        </form>`}</div>`}</div>
    <p class="sr" role="status">${plural(held.length, "freeze")}</p>
    <${Trouble} problem=${problem ?? failed?.problem} again=${failed?.again ?? null} />
    ${!groups.value && !failed && html`<${Loading} rows=${5} />`}
    ${groups.value && !people.length && html`<${Nobody} group=${group} known=${Boolean(found)}
      freezes=${freezing} />`}
    ${people.length > 0 && html`<ul class="tiles class-tiles ${large ? "large" : ""}"
        aria-label="People">${people.map((person) => {
      const task = tasks.findLast((one) => one.user_id === person);
      return html`<${Tile} key=${person} person=${person} task=${task} busy=${busy}
        onFreeze=${freezing ? onFreeze : null}
        computer=${computerOf(computers.value?.computers ?? [], person, task)}
        freeze=${freezeOf(held, person, group)} />`;
    })}</ul>`}
  </div>`;
}
