// What this page does not do yet, and the command that does.
import { html } from "../lib/html.js";
import { Empty } from "../lib/ui.js";

const WHERE = {
  computers: { title: "Computers", does: "lists the computers and connects new ones", commands: ["cc-orchestrator computers", "cc-orchestrator pair"] },
  policy: { title: "Policy", does: "shows what is in force and tries a call on it", commands: ["cc-orchestrator policy show", "cc-orchestrator policy explain TOOL"] },
  audit: { title: "Audit", does: "reads and verifies the journals", commands: ["cc-orchestrator audit show", "cc-orchestrator audit verify"] },
  people: { title: "People", does: "lists people and makes and revokes their tokens", commands: ["cc-orchestrator people add NAME", "cc-orchestrator people list"] },
};

export function Elsewhere({ name }) {
  const { title, does, commands } = WHERE[name];
  return html`<div class="page"><h1>${title}</h1>
    <${Empty} title="In the terminal for now">
      <p>The command line ${does}:</p>
      ${commands.map((one) => html`<p><code>${one}</code></p>`)}
    <//></div>`;
}
