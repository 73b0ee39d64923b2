// Computers as tiles: a live picture, fuel and place where they are known, and what works there now.
import { html } from "../lib/html.js";
import { now as timeNow } from "../lib/api.js";
import { State, family } from "../lib/computers.js";
import { live } from "../lib/live.js";
import { link } from "../lib/route.js";
import { useStore } from "../lib/store.js";
import { oneLine } from "../lib/text.js";
import { Ago, Status } from "../lib/ui.js";
import { Thumbnail } from "../screen/thumbnail.js";

const NUMBER = new Intl.NumberFormat();
// Of its limit: less than this share is little.
const LITTLE = 0.1;
const FRESH_MS = 90_000;

function Fuel({ fuel, limit }) {
  if (fuel === undefined || fuel === null) return null;
  if (fuel < 0) return html`<span class="fuel">Fuel: no limit</span>`;
  const share = limit > 0 ? Math.min(1, fuel / limit) : 1;
  return html`<span class="fuel ${share < LITTLE ? "little" : ""}">
    <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect width="100" height="6" class="rest" />
      <rect width=${Math.max(1, share * 100)} height="6" /></svg>Fuel ${NUMBER.format(fuel)}</span>`;
}

export const place = ({ x, y, z }) => `${x} ${y} ${z}`;

// A turtle may have gone on since it knew its place.
function Place({ position }) {
  if (!position) return null;
  if (timeNow() - Date.parse(position.at) < FRESH_MS) return html`<span>At ${place(position)}</span>`;
  return html`<span>Was at ${place(position)}, <${Ago} at=${position.at} /></span>`;
}

// What a task does now, and where one answers it.
function now(task, times, requests, questions) {
  const mine = requests.find((one) => one.task_id === task.task_id)
    ?? questions.find((one) => one.task_id === task.task_id);
  const address = mine ? link("approvals", [mine.request_id ?? mine.question_id]) : link("tasks", [task.task_id]);
  // The list of tasks may be a moment older than what waits.
  if (mine) return { address, says: "waits for you", status: "Paused" };
  const says = { thinking: "thinks", running: `runs ${oneLine(times?.tool ?? "", 30)}`, waiting: "waits for a person",
    queued: "in the queue" };
  return { address, says: says[times?.doing] ?? "", status: task.status };
}

export function AtWork({ task, times }) {
  const { requests, questions } = useStore(live);
  const { address, says, status } = now(task, times, requests, questions);
  return html`<a class="at-work" href=${address}><${Status} status=${status} />
    <span class="at-work-says">${says && html`<b>${says}</b> · `}${oneLine(task.prompt, 60)}</span></a>`;
}

function Tile({ one, task, times }) {
  const label = one.label && one.label !== one.computer ? oneLine(one.label, 40) : "";
  const what = [family(one), label].filter(Boolean).join(" · ");
  return html`<li class="tile ${one.state}">
    <a class="tile-look" href=${link("computers", [one.computer])}>
      <${Thumbnail} computer=${one.computer} online=${one.state === "online"} />
      <span class="tile-name"><b>${oneLine(one.computer, 64)}</b><${State} state=${one.state} /></span>
      <span class="tile-facts muted"><span>${what || "Never was here"}</span>
        ${one.seen_at && html`<span>here <${Ago} at=${one.seen_at} /></span>`}
        <${Fuel} fuel=${one.fuel} limit=${one.fuel_limit} /><${Place} position=${one.position} /></span>
    </a>
    ${task ? html`<${AtWork} task=${task} times=${times} />` : html`<p class="at-work muted">No task</p>`}
  </li>`;
}

const ORDER = { frozen: 0, online: 1, away: 2 };

export const inOrder = (computers) => [...computers].sort((a, b) => ORDER[a.state] - ORDER[b.state]
  || a.computer.localeCompare(b.computer, undefined, { numeric: true }));

// `atWork`: the task at each computer; `times`: the timelines of tasks, by their ids.
export const Tiles = ({ computers, atWork, times }) => html`<ul class="tiles" aria-label="Computers">
  ${inOrder(computers).map((one) => {
    const task = atWork.get(one.computer);
    return html`<${Tile} key=${one.computer} one=${one} task=${task} times=${times.get(task?.task_id)} />`;
  })}</ul>`;
