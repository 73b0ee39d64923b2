// Signing in by a token, or with the provider of the installation.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { leaveForProvider, look, session, signIn } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { LOGO, Trouble, useDoing } from "../lib/ui.js";

export function SignIn() {
  const [token, setToken] = useState("");
  const { busy, problem, doing } = useDoing();
  const field = useRef(null);
  const { ended, provider } = useStore(session);
  useEffect(() => {
    document.title = "Sign in · cc-orchestrator";
    field.current.focus();
    // Somebody who was signed in when the page was loaded was not told.
    if (provider === undefined) look();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    doing(async () => {
      try {
        await signIn(token.trim());
      } catch (problem) {
        throw problem.undelivered ? { sentence: "The server does not answer. Try again soon." } : problem;
      }
    });
  };
  return html`<main class="alone" id="main">
    <form class="card sign-in" onSubmit=${submit}>
      <img src=${LOGO} alt="" width="40" height="40" />
      <h1>cc-orchestrator</h1>
      ${ended && html`<p class="note warn" role="status">You were signed out. Sign in again to go on; what you typed is
        kept.</p>`}
      <p class="muted">Sign in with your token. On the server's machine the first one is in the file
        ${" "}<code>admin.token</code> of its data directory; others are made by an admin.</p>
      <label for="token">Your token</label>
      <input id="token" ref=${field} type="password" autocomplete="current-password" required spellcheck=${false}
        value=${token} onInput=${(event) => setToken(event.target.value)} />
      <${Trouble} problem=${problem} />
      <button class="primary" disabled=${busy || !token.trim()}>${busy ? "Signing in…" : "Sign in"}</button>
      ${provider && html`<button type="button" onClick=${leaveForProvider}>Sign in with ${provider}</button>`}
    </form>
  </main>`;
}
