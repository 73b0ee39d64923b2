// Notifications on this device also while the page is closed: the browser's subscription is a rule of the person's.
import { Problem, ask, get, id, post } from "./api.js";
import { session } from "./session.js";
import { Store } from "./store.js";

const WORKER = "/console/push-worker.js";
const KINDS = ["waits_for_you", "question"];
const RULES = "/v1/notifications/rules";

// `state`: asking, impossible (`why`), off or on. `key`: the server's, for which a browser subscribes.
export const push = new Store({ state: "asking" });

// The only address that this page may start a worker from, whatever is asked for.
const worker = globalThis.trustedTypes?.createPolicy("push", { createScriptURL: () => WORKER }).createScriptURL("")
  ?? WORKER;

async function subscription() {
  const registration = await globalThis.navigator.serviceWorker?.getRegistration(WORKER);
  return registration?.pushManager?.getSubscription();
}

// The name of the rule follows from the subscription: nothing has to be kept here.
async function nameOf({ endpoint }) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(endpoint)));
  return `browser-${Array.from(digest.slice(0, 8), (one) => one.toString(16).padStart(2, "0")).join("")}`;
}

function missing() {
  if (!isSecureContext) return "For notifications while it is closed, open this page by https.";
  if (!("PushManager" in globalThis && navigator.serviceWorker)) {
    return "This browser has no notifications of closed pages.";
  }
  return "";
}

// Turned on or off so many times: what was read before one of them is not how it stands.
let turns = 0;

// How it stands, by the browser and by the server. A subscription that is no rule of this person's ends.
export async function lookAtPush() {
  const why = missing();
  if (why) return push.set({ state: "impossible", why });
  const begun = turns;
  const has = await subscription();
  const { rules, push_key: key } = await get(RULES);
  if (begun !== turns) return undefined;
  if (!key) {
    return push.set({
      state: "impossible",
      why: "For notifications while it is closed, an admin installs cc-orchestrator[notify] on the server.",
    });
  }
  const name = has && await nameOf(has);
  const mine = rules.some((one) => one.name === name && one.person === session.value.name);
  if (has && !mine) await has.unsubscribe();
  return push.set({ state: mine ? "on" : "off", key });
}

// Asks the server only where this browser has a subscription.
export async function lookAtOwnPush() {
  if (!missing() && await subscription()) await lookAtPush();
}

function activated(registration) {
  const coming = registration.installing ?? registration.waiting;
  return registration.active ?? new Promise((done, fail) => {
    coming.addEventListener("statechange", () => {
      if (coming.state === "activated") done();
      if (coming.state === "redundant") fail(new Error("the worker was not installed"));
    });
  });
}

export async function turnOnPush() {
  turns += 1;
  const registration = await navigator.serviceWorker.register(worker);
  await activated(registration);
  // Of another person, or for another key.
  await (await registration.pushManager.getSubscription())?.unsubscribe();
  const options = { userVisibleOnly: true, applicationServerKey: push.value.key };
  const made = await registration.pushManager.subscribe(options).catch(() => {
    const remedy = "Its push service may be switched off or not reachable: try again later.";
    throw new Problem(0, { message: "The browser did not subscribe to notifications.", remedy });
  });
  const { endpoint, keys } = made.toJSON();
  const url = `webpush:${endpoint}#${keys.p256dh}.${keys.auth}`;
  try {
    await post(RULES, { name: await nameOf(made), kinds: KINDS, url });
  } catch (problem) {
    await made.unsubscribe();
    throw problem;
  }
  push.patch({ state: "on" });
}

// The browser's end first: then nothing comes, also where the server does not answer.
export async function turnOffPush() {
  turns += 1;
  const has = missing() ? null : await subscription();
  if (!has) return;
  await has.unsubscribe();
  push.patch({ state: "off" });
  await ask("DELETE", `${RULES}/${id(await nameOf(has))}`);
}
