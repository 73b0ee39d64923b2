// The service worker: shows pushed notifications, also while the page is closed. It keeps no file of the page.
addEventListener("push", (event) => {
  const { id, text, route } = event.data.json();
  // A message that came twice has one id, and is shown once.
  const told = { body: text, tag: id, icon: "/console/icon.svg", data: route };
  event.waitUntil(registration.showNotification("cc-orchestrator", told));
});

addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(lead(event.notification.data));
});

// The page that is open goes there, or else a new one.
async function lead(route) {
  const pages = await clients.matchAll({ type: "window", includeUncontrolled: true });
  const page = pages.find((one) => new URL(one.url).pathname === "/");
  if (!page) return clients.openWindow(`/#${route}`);
  page.postMessage(route);
  return page.focus();
}

// The browser gave up its subscription for another one: the rule of the person who is signed in moves there.
addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew(event)));

const RULES = "/v1/notifications/rules";

async function told(path, method = "GET", { csrf, ...body } = {}) {
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": csrf };
  const answer = await fetch(path, method === "GET" ? {} : { method, headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status}`);
  return answer.json();
}

// As the page names it.
async function nameOf({ endpoint }) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(endpoint)));
  return `browser-${Array.from(digest.slice(0, 8), (one) => one.toString(16).padStart(2, "0")).join("")}`;
}

// Nothing where the browser does not say which one it gave up, or where that is no rule of theirs any more.
async function renew({ oldSubscription: old, newSubscription: given }) {
  if (!old) return;
  const [{ name: person, csrf }, { rules, push_key: applicationServerKey }, name] = await Promise.all(
    [told("/v1/session"), told(RULES), nameOf(old)],
  );
  const rule = rules.find((one) => one.name === name && one.person === person);
  if (!rule) return;
  const made = given ?? await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
  const { endpoint, keys } = made.toJSON();
  const url = `webpush:${endpoint}#${keys.p256dh}.${keys.auth}`;
  const { kinds, quiet, details } = rule;
  await told(RULES, "POST", { csrf, name: await nameOf(made), kinds, quiet, details, url });
  await told(`${RULES}/${name}`, "DELETE", { csrf });
}
