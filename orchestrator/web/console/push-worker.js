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
