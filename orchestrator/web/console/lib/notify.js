// A notification of the browser's when something new waits and nobody looks; asked for only by a click.
import { onOpened } from "./live.js";
import { push } from "./push.js";
import { go, link } from "./route.js";
import { Store } from "./store.js";
import { oneLine } from "./text.js";
import { LOGO } from "./ui.js";

// granted, denied, default (nobody was asked) or none (the browser has no notifications).
export const permission = new Store(globalThis.Notification?.permission ?? "none");

export async function askToNotify() {
  permission.set(await Notification.requestPermission());
}

export function watchOpened() {
  const told = new Set();
  return onOpened((one) => {
    const id = one.request_id ?? one.question_id;
    if (permission.value !== "granted" || !document.hidden || told.has(id)) return;
    told.add(id);
    // The service worker shows it.
    if (push.value.state === "on") return;
    const title = one.request_id ? `${one.risk} risk: a request waits` : "A task asks something";
    const shown = new Notification(title, { body: oneLine(one.goal, 120), tag: id, icon: LOGO });
    shown.onclick = () => {
      focus();
      go(link("approvals", [id]));
      shown.close();
    };
  });
}

// Where a click on a pushed notification leads, from the service worker.
globalThis.navigator.serviceWorker?.addEventListener("message", ({ data }) => go(`#${data}`));
globalThis.navigator.serviceWorker?.startMessages();
