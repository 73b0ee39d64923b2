// The rules of the policy, the people who have to approve, and its own roles, in words.
import { html } from "../lib/html.js";
import { Text } from "../lib/text.js";
import { Risk, plural, span } from "../lib/ui.js";

const EFFECTS = { allow: ["Allow", "good"], ask: ["Ask", "warn"], hint: ["Hint", "warn"], deny: ["Deny", "bad"] };
const TESTS = {
  eq: (value) => ["is", value], in: (value) => ["is one of", value], regex: (value) => ["matches", value],
  max_length: (value) => ["has at most", `${value} characters`], max_number: (value) => ["is at most", value],
  over_length: (value) => ["has more than", `${value} characters`], over_number: (value) => ["is more than", value],
};

export const Effect = ({ effect }) =>
  html`<span class="badge ${EFFECTS[effect]?.[1] ?? ""}">${EFFECTS[effect]?.[0] ?? effect}</span>`;

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));
export const Words = ({ list }) =>
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
    of("families", "on computers of the kind"), of("labels", "where the label is"), of("owners", "on computers of"),
    of("roles", "asked for by"), of("users", "asked for by"), of("groups", "asked for by the group"),
    of("risks", "where the risk is"),
    ...(rule.args ?? []).map((test) => ["where", html`<${Test} test=${test} />`]),
    rule.reads && ["it counts as", "looking only"],
  ].filter(Boolean);
}

const Condition = ({ says, children }) => html`<p class="condition"><span class="muted">${says}</span> ${children}</p>`;

// The calls that something of the policy is about.
const Calls = ({ of }) => html`<p class="tools-of">${of.tools[0] === "*" ? "every tool"
  : html`<${Words} list=${of.tools} />`}</p>
  ${conditions(of).map(([says, what]) => html`<${Condition} says=${says}>${what}<//>`)}`;

// So many people as the policy names them, such as `role:tutor`; empty: any who may decide.
function people(by, count = 1) {
  const [kind, name] = by.split(/:(.*)/s);
  const some = count === 1 ? "somebody" : `${count} people`;
  const named = { role: `${some} with the role ${name}`, group: `${some} in the group ${name}`, person: name };
  return named[kind] ?? `${some} who may decide`;
}

// One table `[[approvals]]`.
export function Approval({ table }) {
  const steps = table.steps.map(({ by, count }) => people(by, count)).join(", then ");
  return html`<li class="rule"><div class="line"><b><${Text} value=${steps} /></b></div>
    <${Calls} of=${table.when} />
    ${table.escalate_after_s > 0 && html`<${Condition} says=${`after ${span(table.escalate_after_s)} it goes to`}>
      <${Text} value=${people(table.escalate_to || "role:admin")} /><//>`}
  </li>`;
}

const RIGHTS = {
  view: "look", submit: "submit tasks", decide: "decide", freeze: "freeze people", pair: "pair computers",
  audit: "read the audit",
};

// One table `[roles.NAME]`; its limits are about `decide` alone.
export const Role = ({ name, role }) => html`<li class="rule"><div class="line"><b>
    <${Text} value=${name} line=${64} /></b></div>
  <p>may ${role.may.map((one) => RIGHTS[one] ?? one).join(", ")}</p>
  ${role.max_risk && html`<${Condition} says="decides up to"><${Risk} risk=${role.max_risk} /><//>`}
  ${role.computers && html`<${Condition} says="decides on computers"><${Words} list=${role.computers} /><//>`}
  ${role.paths && html`<${Condition} says="decides where every path is in"><${Words} list=${role.paths} /><//>`}
</li>`;

export const Rule = ({ rule, number, children }) => html`<li class="rule effect-${rule.effect}">
  <div class="line"><${Effect} effect=${rule.effect} /><b><${Text} value=${rule.id} line=${80} /></b>
    ${rule.risk && html`<${Risk} risk=${rule.risk} />`}<span class="muted number-of">${number}</span></div>
  <${Calls} of=${rule} />
  ${rule.reason && html`<p class="muted"><${Text} value=${rule.reason} /></p>`}
  ${children}
</li>`;
