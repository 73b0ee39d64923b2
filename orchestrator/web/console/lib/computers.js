// Computers in a few words, and which open task works at each.
import { html, useEffect } from "./html.js";
import { onHint } from "./live.js";
import { useReading } from "./reading.js";
import { oneLine } from "./text.js";

export const STATES = { online: ["Online", "good"], away: ["Away", ""], frozen: ["Frozen", "bad"] };
const FAMILIES = { computer: "Computer", advanced: "Advanced computer", turtle: "Turtle", pocket: "Pocket computer",
  command: "Command computer" };

export const State = ({ state }) =>
  html`<span class="badge ${STATES[state]?.[1] ?? ""}">${STATES[state]?.[0] ?? state}</span>`;
export const family = (one) => (one.family ? FAMILIES[one.family] ?? oneLine(one.family, 30) : "");

// The tasks that work now or wait for a person: those that run come last.
export function useOpenTasks() {
  const running = useReading("/v1/tasks?status=Running&limit=300");
  const waiting = useReading("/v1/tasks?status=Paused&limit=300");
  useEffect(() => onHint("tasks", () => {
    running.again();
    waiting.again();
  }), []);
  return [...(waiting.value?.tasks ?? []), ...(running.value?.tasks ?? [])];
}

// The one of them that each computer is at work for.
export const atWork = (tasks) => new Map(tasks.flatMap((task) => task.computers.map((computer) => [computer, task])));
export const useAtWork = () => atWork(useOpenTasks());
