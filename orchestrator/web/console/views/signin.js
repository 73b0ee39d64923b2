// Signing in by a token.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { signIn } from "../lib/session.js";
import { Trouble, useDoing } from "../lib/ui.js";

export function SignIn() {
  const [token, setToken] = useState("");
  const { busy, problem, doing } = useDoing();
  const field = useRef(null);
  useEffect(() => {
    document.title = "Sign in · cc-orchestrator";
    field.current.focus();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    doing(() => signIn(token.trim()));
  };
  return html`<main class="alone" id="main">
    <form class="card sign-in" onSubmit=${submit}>
      <img src="/console/icon.svg" alt="" width="40" height="40" />
      <h1>cc-orchestrator</h1>
      <p class="muted">Sign in with your token. On the server's machine the first one stands in the file
        ${" "}<code>admin.token</code> of its data directory; others are made by an admin.</p>
      <label for="token">Your token</label>
      <input id="token" ref=${field} type="password" autocomplete="current-password" required spellcheck=${false}
        value=${token} onInput=${(event) => setToken(event.target.value)} />
      <${Trouble} problem=${problem} />
      <button class="primary" disabled=${busy || !token.trim()}>${busy ? "Signing in…" : "Sign in"}</button>
    </form>
  </main>`;
}
