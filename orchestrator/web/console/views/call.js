// One call of a request: exactly what would run, what was found, and why somebody is asked.
import { html } from "../lib/html.js";
import { Code, isLongText } from "../lib/code.js";
import { Diff, isLong, unified } from "../lib/diff.js";
import { isGrave } from "../lib/decide.js";
import { isLua } from "../lib/lua.js";
import { Text, oneLine } from "../lib/text.js";
import { Facts, Hash, Risk, pretty, where } from "../lib/ui.js";

const IN_THE_DIFF = new Set(["content", "old", "new", "patch"]);

// The parts of a call that are so long that they are not all on the page at first: [name, text] of each.
export function longParts(call) {
  const { diff, source } = call.observed;
  const parts = [];
  if (diff && isLong(diff)) parts.push(["diff", diff]);
  if (source && isLongText(source)) parts.push(["source", source]);
  for (const [name, value] of shownArgs(call)) {
    const text = pretty(value);
    if (isLongText(text)) parts.push([`arg ${name}`, text]);
  }
  return parts;
}

const shownArgs = (call) => Object.entries(call.args)
  .filter(([name]) => !(call.observed.diff && IN_THE_DIFF.has(name)));

function Argument({ call, name, value, onWhole }) {
  const line = JSON.stringify(value);
  const text = typeof value !== "string" && line.length < 80 ? line : pretty(value);
  if (!text.includes("\n") && text.length < 200) return html`<div class="arg"><span class="name">${oneLine(name)}</span>
      <code><${Text} value=${text} /></code></div>`;
  const lua = typeof value === "string" && isLua(String(call.args.path ?? "x.txt"));
  return html`<${Code} text=${text} lua=${lua} label=${oneLine(name)} onWhole=${onWhole} />`;
}

// What is there; of a single file whose diff is shown, that says it.
function Found({ observed }) {
  const all = Object.entries(observed.state);
  const rows = all.filter(([path, state]) => all.length > 1 || !observed.diff || state === "absent"
    || observed.directories.includes(path));
  if (!rows.length && !observed.made.length && observed.encoding === "utf-8") return null;
  return html`<div class="found"><h4>Found there</h4><ul>
    ${rows.map(([path, state]) => html`<li><code><${Text} value=${path || "/"} /></code>
      ${" "}<span class="muted">${state === "absent" ? "nothing there yet"
        : observed.directories.includes(path) ? "a directory" : "a file"}</span></li>`)}
    ${observed.made.map((path) => html`<li><code><${Text} value=${path} /></code> <span
        class="muted">a directory that it would make</span></li>`)}
    ${observed.encoding !== "utf-8" && html`<li class="muted">The file stays in ${observed.encoding}.</li>`}
  </ul></div>`;
}

// The arguments that a person changed: [name, before, after] of each.
export function editedParts(before, after) {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    .map((name) => [name, ...[before, after].map((args) => (name in args ? pretty(args[name]) : ""))]);
}

const editor = (call) => (call.edited_by ? oneLine(call.edited_by, 64) : "a person");

function Edited({ call }) {
  return html`<h4>Changes of the call from the model by ${editor(call)}</h4>
    ${editedParts(call.original_args, call.args).map(([name, before, after]) => html`<${Diff} label=${oneLine(name)}
        diff=${unified(before, after)} />`)}`;
}

// By which rules it is asked about and what binds the decision to it: nothing that runs stands here alone.
export function CallDetails({ call, number }) {
  const { observed, evaluation } = call;
  return html`<${Facts} rows=${[
    number && ["Call", html`${number}, <code>${oneLine(call.tool)}</code>`],
    ["Rules", html`<${Text} value=${evaluation.matched_rules.join(", ") || "none"} />`],
    ["Call id", html`<code>${oneLine(call.call_id)}</code>`],
    call.action_digest && ["Digest", html`<${Hash} value=${call.action_digest} />`],
    ...Object.entries(observed.state).filter(([, state]) => state !== "absent").map(([path, state]) => [
      html`<${Text} value=${path || "/"} />`, html`<${Hash} value=${state} />`]),
  ]} />`;
}

// `number`: "1 of 3" where there are several. `onWhole`: told when a long part is on the page, with its text.
export function Call({ call, number, onWhole, children }) {
  const { observed, evaluation } = call;
  const path = String(call.args.path ?? observed.program ?? "");
  return html`<div class="call ${isGrave(evaluation.risk) ? "grave" : ""}" role="group"
      aria-label=${[number, oneLine(call.tool), where(call.computer), oneLine(path, 100)].filter(Boolean).join(" ")}>
    <h3>${number && html`<span class="muted">${number} </span>`}<code class="tool">${oneLine(call.tool)}</code>
      ${" "}<span>${where(call.computer)}</span>${number && html` <${Risk} risk=${evaluation.risk} />`}</h3>
    ${call.truncated && html`<p class="note bad"
        role="status">Cut: not all of this call is shown, so it cannot be approved yet.</p>`}
    ${call.original_args && html`<div class="note"><p><b>Edited by ${editor(call)}.</b> You decide the
      edited call below. The changes of the call from the model stand after it.</p></div>`}
    <div class="args">${shownArgs(call).map(([name, value]) => html`<${Argument} key=${name} call=${call} name=${name}
        value=${value} onWhole=${() => onWhole?.(`arg ${name}`, pretty(value))} />`)}</div>
    ${observed.program && html`<div class="arg"><span class="name">program</span><code><${Text}
        value=${observed.program} /></code></div>`}
    ${observed.source && html`<${Code} text=${observed.source} lua=${true} label="The program as it stands there"
        onWhole=${() => onWhole?.("source", observed.source)} />`}
    ${observed.diff && html`<${Diff} diff=${observed.diff} lua=${isLua(path)}
        label=${path ? oneLine(path, 80) : "Changes"} onWhole=${() => onWhole?.("diff", observed.diff)} />`}
    ${observed.note && html`<div class="note"><p class="prose"><${Text} value=${observed.note} /></p></div>`}
    ${call.original_args && html`<${Edited} call=${call} />`}
    <${Found} observed=${observed} />
    <p class="why prose"><span class="muted">Why it is asked: </span><${Text} value=${evaluation.reason} /></p>
    ${children}
  </div>`;
}
