// The person who is signed in with this browser. `where`: asking, in, out, or away (the server does not say).
import { ask, get, hold, post } from "./api.js";
import { Store } from "./store.js";

export const session = new Store({ where: "asking", name: "", roles: [], rights: [], version: "" });

function entered(told) {
  // Signed in elsewhere in this browser: the content here is another person's.
  if (session.value.where === "in" && told.name !== session.value.name) return location.reload();
  hold({ csrf: told.csrf });
  session.set({ where: "in", name: told.name, roles: told.roles, rights: told.rights, version: told.version });
}

// `ended`: nobody asked for it.
function left({ ended = false } = {}) {
  hold({ csrf: "" });
  session.set({ where: "out", name: "", roles: [], rights: [], version: "", ended });
}

hold({ signedOut: () => left({ ended: session.value.ended || session.value.where === "in" }) });

// Asks the server whether somebody is signed in. Keeps the last answer where the server does not answer.
export async function look() {
  try {
    entered(await get("/v1/session"));
  } catch (error) {
    if (error.status !== 401 && session.value.where === "asking") session.patch({ where: "away" });
  }
  return session.value.where === "in";
}

export async function signIn(token) {
  entered(await post("/v1/session", { token }));
}

// For the other tabs, in which somebody was signed in by the same cookie.
const tabs = new BroadcastChannel("signed out");
tabs.onmessage = forgetAll;

// Also what was typed and not sent.
function forgetAll() {
  sessionStorage.clear();
  left();
}

export async function signOut() {
  await ask("DELETE", "/v1/session");
  forgetAll();
  tabs.postMessage(null);
}

export const may = (right) => session.value.rights.includes(right);
