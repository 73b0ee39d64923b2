// Signs in by a token and says who is signed in.
const at = (id) => document.getElementById(id);
let csrf = "";

async function ask(method, body) {
  const headers = { "X-CSRF-Token": csrf };
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch("/v1/session", { method, headers, body: body && JSON.stringify(body) });
  const told = answer.status === 204 ? {} : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(`${told.error.message} ${told.error.remedy}`), { status: answer.status });
  return told;
}

function show(session) {
  csrf = session ? session.csrf : "";
  at("sign-in").hidden = Boolean(session);
  at("signed-in").hidden = !session;
  at("name").textContent = session ? session.name : "";
  at("roles").textContent = session ? session.roles.join(", ") : "";
  at("said").textContent = "";
}

const trying = (step) => step().catch((error) => { at("said").textContent = error.message; });

at("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  trying(async () => {
    show(await ask("POST", { token: at("token").value }));
    at("token").value = "";
  });
});

at("sign-out").addEventListener("click", () => trying(async () => {
  await ask("DELETE");
  show(null);
}));

trying(async () => {
  try {
    show(await ask("GET"));
  } catch (error) {
    if (error.status !== 401) throw error;
    show(null);
  }
});
