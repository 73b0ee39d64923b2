// The policy: what is in force, its rules in words, a dry run, and the standing approvals.
import { html } from "../lib/html.js";
import { post } from "../lib/api.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { Text, oneLine } from "../lib/text.js";
import { Facts, Loading, Risk, Trouble, plural, useDoing } from "../lib/ui.js";
import { DryRun } from "./dryrun.js";
import { Grants } from "./grants.js";

const EFFECTS = { allow: ["Allow", "good"], ask: ["Ask", "warn"], deny: ["Deny", "bad"] };
const PARTS = [["", "Rules"], ["try", "Try a call"], ["grants", "Standing approvals"]];
const TESTS = {
  eq: (value) => ["is", value], in: (value) => ["is one of", value], regex: (value) => ["matches", value],
  max_length: (value) => ["has at most", `${value} characters`], max_number: (value) => ["is at most", value],
  over_length: (value) => ["has more than", `${value} characters`], over_number: (value) => ["is more than", value],
};

export const Effect = ({ effect }) =>
  html`<span class="badge ${EFFECTS[effect]?.[1] ?? ""}">${EFFECTS[effect]?.[0] ?? effect}</span>`;

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const Words = ({ list }) =>
  html`${list.map((one, at) => html`${at > 0 && ", "}<code><${Text} value=${shown(one)} /></code>`)}`;

function Test({ test }) {
  const name = Object.keys(TESTS).find((one) => test[one] !== null && test[one] !== undefined);
  const [says, value] = TESTS[name]?.(test[name]) ?? ["", test];
  return html`<code><${Text} value=${test.pointer} /></code> ${says} ${Array.isArray(value)
    ? html`<details class="inline"><summary>${plural(value.length, "value")}</summary>
      <p><${Words} list=${value} /></p></details>`
    : html`<code><${Text} value=${shown(value)} /></code>`}`;
}

// What has to hold for a rule, in words.
function conditions(rule) {
  const of = (name, says) => rule[name]?.length && [says, html`<${Words} list=${rule[name]} />`];
  return [
    of("paths", rule.effect === "allow" ? "every path is in" : "a path is in"), of("programs", "the program is"),
    of("computers", "on computers"),
    of("families", "on computers of the kind"), of("labels", "where the label is"), of("roles", "asked for by"),
    of("risks", "where the risk is"),
    ...(rule.args ?? []).map((test) => ["where", html`<${Test} test=${test} />`]),
    rule.reads && ["it counts as", "looking only"],
  ].filter(Boolean);
}

export const Rule = ({ rule, number, children }) => html`<li class="rule effect-${rule.effect}">
  <div class="line"><${Effect} effect=${rule.effect} /><b><${Text} value=${rule.id} line=${80} /></b>
    ${rule.risk && html`<${Risk} risk=${rule.risk} />`}<span class="muted number-of">${number}</span></div>
  <p class="tools-of">${rule.tools[0] === "*" ? "every tool" : html`<${Words} list=${rule.tools} />`}</p>
  ${conditions(rule).map(([says, what]) => html`<p class="condition"><span class="muted">${says}</span> ${what}</p>`)}
  ${rule.reason && html`<p class="muted"><${Text} value=${rule.reason} /></p>`}
  ${children}
</li>`;

function Alert({ alert }) {
  return html`<div class="note bad loud" role="alert"><p><b>The policy's file cannot be used as it is.</b> What was
    loaded before goes on being in force.</p><p class="prose"><${Text} value=${alert} /></p></div>`;
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
      ${may("admin") && html`<button type="button" disabled=${busy} onClick=${reload}>Load the file now</button>`}</div>
    <${Facts} rows=${[
      ["Version", html`<code>${value.policy_version}</code>`],
      ["File", html`<code><${Text} value=${value.source} /></code>`],
      ["Mode", value.mode === "plan" ? html`<b>plan: whatever changes something is denied</b>` : "normal"],
      ["A tool that no rule covers", policy.unknown_tool === "ask" ? "asks"
        : "is denied, or asks if it changes something"],
      ["Undo", UNDO[policy.undo] ?? policy.undo],
      policy.custom.length > 0 && ["Plugins", html`<${Words} list=${policy.custom} />`],
    ]} />
    <${Trouble} problem=${problem} />
    <p class="muted small">The strictest rule that matches wins: deny, then ask, then allow. The file is looked at each
      second; <code>docs/policy.md</code> says how it is written.</p>
  </section>`;
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
      <ol class="rules" aria-label="Rules">
        ${value.policy.rules.map((rule, at) => html`<${Rule} key=${rule.id} rule=${rule} number=${at + 1} />`)}</ol>
      ${!value.policy.rules.length && html`<p class="muted">It has no rules: every tool that it knows is denied, or
        asks.</p>`}`}
    ${value && part === "try" && html`<${DryRun} policy=${value.policy} />`}
    ${part === "grants" && html`<${Grants} />`}
  </div>`;
}

export const MISSED = {
  tools: "it is about other tools", paths: "its paths are others", programs: "its programs are others",
  computers: "its computers are others",
  families: "the kind of computer is another", labels: "the label is another", args: "an argument is another",
  roles: "the requester's roles are others", risks: "the risk is another", call: "nothing about the call can be judged",
};
export const missed = (name) => MISSED[name] ?? oneLine(name, 80);

const OPEN = {
  paths: "its paths", programs: "its programs", computers: "the computer", families: "the kind of computer",
  labels: "the computer's label",
  args: "an argument", roles: "the requester's roles", risks: "the risk", call: "the call itself",
};
// What nobody knows yet where a rule may match.
export const open = (name) => OPEN[name] ?? oneLine(name, 80);
