// The policy: what is in force, its rules in words, a dry run, and the grants.
import { html } from "../lib/html.js";
import { post } from "../lib/api.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { Text } from "../lib/text.js";
import { Facts, Loading, Trouble, useDoing } from "../lib/ui.js";
import { DryRun } from "./dryrun.js";
import { Grants } from "./grants.js";
import { Approval, Role, Rule, Words } from "./rules.js";

const PARTS = [["", "Rules"], ["try", "Try a call"], ["grants", "Grants"]];

function Alert({ alert }) {
  return html`<div class="note bad loud" role="alert"><p><b>The policy needs attention on this
    node.</b></p><p class="prose"><${Text} value=${alert} /></p></div>`;
}

const UNDO = { offer: "offered", auto: "by itself, after a task that failed", never: "never" };

function InForce({ value, again }) {
  const { busy, problem, doing } = useDoing();
  const { policy } = value;
  const reload = () => doing(async () => {
    await post("/v1/policy/reload");
    again();
  });
  return html`<section class="card in-force" aria-label="In force">
    <div class="head"><h2>In force</h2>
      ${may("everything") && html`<button type="button" disabled=${busy} onClick=${reload}>
        Load the file now</button>`}</div>
    <${Facts} rows=${[
      ["Version", html`<code>${value.policy_version}</code>`],
      ["From", html`<code><${Text} value=${value.source} /></code>`],
      ["Mode", value.mode === "plan" ? html`<b>plan: whatever changes something is denied</b>` : "normal"],
      ["A tool that no rule covers", policy.unknown_tool === "ask" ? "asks"
        : "is denied, or asks if it changes something"],
      ["Undo", UNDO[policy.undo] ?? policy.undo],
      ["Secrets toward the model", policy.secrets_to_model ?? "masked for hosted models, shown to local ones"],
      policy.requests.approvals > 1 && ["Approvals of each request", `${policy.requests.approvals} people, at least`],
      policy.self_approval && ["People who only submit", "decide their own tasks"],
      policy.custom.length > 0 && ["Plugins", html`<${Words} list=${policy.custom} />`],
    ]} />
    <${Trouble} problem=${problem} />
    <p class="muted small">The strictest rule that matches wins: deny, then ask, then allow. The file is looked at each
      second; <code>docs/policy.md</code> says how it is written.</p>
  </section>`;
}

// Who approves what, and what the policy's own roles may; nothing where it says nothing of them.
function People({ policy: { approvals, roles } }) {
  const own = Object.entries(roles);
  return html`${approvals.length > 0 && html`<section class="part" aria-labelledby="approvals-of">
      <h2 id="approvals-of">Who has to approve</h2>
      <p class="muted">Each table that is about a call adds its people.</p>
      <ol class="rules" aria-label="Approvals">${approvals.map((table) => html`<${Approval} table=${table} />`)}</ol>
    </section>`}
    ${own.length > 0 && html`<section class="part" aria-labelledby="roles-of"><h2 id="roles-of">Roles of its own</h2>
      <ul class="rules" aria-label="Roles">${own.map(([name, role]) => html`
        <${Role} key=${name} name=${name} role=${role} />`)}</ul></section>`}`;
}

export function Policy({ part: named }) {
  const part = PARTS.some(([name]) => name === named) ? named : "";
  const { value, problem, again } = useReading("/v1/policy");
  return html`<div class="page narrow">
    <h1>Policy</h1>
    ${value?.alert && html`<${Alert} alert=${value.alert} />`}
    <nav class="chips" aria-label="Parts of the policy">
      ${PARTS.map(([name, title]) => html`
        <a href=${link("policy", name ? [name] : [])} aria-current=${name === part ? "page" : null}>${title}</a>`)}
    </nav>
    ${named !== part && html`<p class="note" role="status">There is no such part: these are the rules.</p>`}
    <${Trouble} problem=${problem?.undelivered && value ? null : problem} again=${again} />
    ${!value && !problem && html`<${Loading} rows=${5} />`}
    ${value && !part && html`<${InForce} value=${value} again=${again} />
      <${People} policy=${value.policy} />
      <ol class="rules" aria-label="Rules">
        ${value.policy.rules.map((rule, at) => html`<${Rule} key=${rule.id} rule=${rule} number=${at + 1} />`)}</ol>
      ${!value.policy.rules.length && html`<p class="muted">It has no rules: every tool that it knows is denied, or
        asks.</p>`}`}
    ${value && part === "try" && html`<${DryRun} policy=${value.policy} />`}
    ${part === "grants" && html`<${Grants} />`}
  </div>`;
}
