// The person who is signed in with this browser. `where`: asking, in, out, or away (the server does not say).
// `provider`: where people may sign in instead of by a token; empty: nowhere, undefined: the server did not say yet.
import { ask, get, hold, post } from "./api.js";
import { Store } from "./store.js";

export const session = new Store({ where: "asking", name: "", roles: [], rights: [], version: "" });
const PLACE = "place";

function entered(told) {
  // Signed in elsewhere in this browser: the content here is another person's.
  if (session.value.where === "in" && told.name !== session.value.name) return location.reload();
  hold({ csrf: told.csrf });
  const { name, roles, rights, version } = told;
  session.patch({ where: "in", name, roles, rights, version, ended: undefined });
  // After the provider's page, which keeps no place of ours.
  const place = sessionStorage.getItem(PLACE);
  sessionStorage.removeItem(PLACE);
  if (place && !location.hash) location.hash = place;
}

// `ended`: nobody asked for it.
function left({ ended = false } = {}) {
  hold({ csrf: "" });
  session.patch({ where: "out", name: "", roles: [], rights: [], version: "", ended });
}

hold({ signedOut: () => left({ ended: session.value.ended || session.value.where === "in" }) });

// Asks the server whether somebody is signed in. Keeps the last answer where the server does not answer.
export async function look() {
  try {
    entered(await get("/v1/session"));
  } catch (error) {
    if (error.status === 401) session.patch({ provider: error.details.provider ?? "" });
    else if (session.value.where === "asking") session.patch({ where: "away" });
  }
  return session.value.where === "in";
}

// To the provider's page, and from there back to this place.
export function leaveForProvider() {
  // The page that tells of a refusal leads back to no place.
  if (location.hash) sessionStorage.setItem(PLACE, location.hash);
  location.assign("/v1/session/oidc");
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
