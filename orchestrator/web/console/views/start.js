// The next step for a beginner: a computer, a model, a first task.
import { html } from "../lib/html.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { Text } from "../lib/text.js";

const SCRIPTED = "scripted:";

function Model({ model }) {
  if (model === undefined) return html`<p>An admin sees here which model answers.</p>`;
  if (model.startsWith(SCRIPTED)) {
    return html`<p>Now a script answers that ships with the program and only tries things out (
      <code><${Text} value=${model} line=${60} /></code>).
      For a real one start <a href="https://ollama.com" rel="noreferrer noopener" target="_blank">Ollama</a>, fetch a
        model there, and start the server with
      ${" "}<code>cc-orchestrator serve --choose-model</code>.</p>`;
  }
  return html`<p>Tasks are done by <code><${Text} value=${model} line=${80} /></code>. Whether it
    answers: <code>cc-orchestrator doctor</code>.</p>`;
}

// The same where nobody looks for computers; nothing where there are some.
export function StartWithout() {
  const { value } = useReading("/v1/computers");
  return value?.computers.length === 0 ? html`<${Start} />` : null;
}

export function Start() {
  const admin = may("pair");
  const { value } = useReading(admin ? "/v1/doctor" : null);
  return html`<section class="card start" aria-label="How to begin">
    <h2>No computer is connected yet</h2>
    <ol>
      <li><h3>Connect a computer</h3>
        ${admin ? html`<p>In the game, at a computer of ComputerCraft: type one line there.</p>
          <p><a class="button primary" href=${link("pairing")}>Pair a computer</a></p>`
          : html`<p>An admin pairs it: ask one for a line to type on it.</p>`}
        <p class="muted">No Minecraft at hand? In a terminal, <code>cc-orchestrator simulate</code> starts a computer
          that behaves like one.</p></li>
      <li><h3>A model</h3><${Model} model=${value?.model} /></li>
      <li><h3>Try a task</h3><p>Such as “Write a program that counts to ten and run it”. What it wants to change is
        asked about first.</p>
        ${may("submit") && html`<p><a class="button" href=${link("tasks", [], { new: "1" })}>New task</a></p>`}</li>
    </ol>
  </section>`;
}
