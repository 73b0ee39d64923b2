// What is being read from computers now, such as for a backup: looked at often while something is, and seldom else.
import { get } from "./api.js";
import { pause } from "./events.js";
import { Store } from "./store.js";

const QUIET_MS = 5000, BUSY_MS = 500;

// Rows as `GET /v1/transfers` has them; a page that is hidden does not look.
export const transfers = new Store([]);

let running = null;
let sleeping = null;

export function start() {
  if (running) return;
  running = new AbortController();
  run(running.signal);
}

export function stop() {
  running?.abort();
  running = null;
  transfers.set([]);
}

// Something is about to begin, as the caller knows.
export const lookSoon = () => sleeping?.abort();

async function run(signal) {
  const seen = () => document.hidden || lookSoon();
  document.addEventListener("visibilitychange", seen, { signal });
  while (!signal.aborted) {
    if (!document.hidden) await look(signal);
    sleeping = new AbortController();
    signal.addEventListener("abort", lookSoon, { signal: sleeping.signal });
    await pause(transfers.value.length ? BUSY_MS : QUIET_MS, sleeping.signal);
  }
}

async function look(signal) {
  let rows = [];
  try {
    rows = (await get("/v1/transfers")).transfers;
  } catch {
    // Other parts tell a person that the server is away, or that they are signed out.
  }
  // What stays empty draws nothing anew.
  if (!signal.aborted && (rows.length || transfers.value.length)) transfers.set(rows);
}

// What goes on at one of these computers, the oldest first.
export const of = (rows, computers) => rows.filter((one) => computers.includes(one.computer));
