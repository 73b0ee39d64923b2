// A dry run: what the policy says of a call, which rules matched, and why the others did not. Nothing runs.
import { html, useEffect, useState } from "../lib/html.js";
import { post } from "../lib/api.js";
import { useReading } from "../lib/reading.js";
import { Text, inOrder, oneLine } from "../lib/text.js";
import { TOOLS } from "../lib/tools.js";
import { Risk, Trouble, useDoing } from "../lib/ui.js";
import { Effect, Rule } from "./rules.js";

const MISSED = {
  tools: "it is about other tools", paths: "its paths are others", programs: "its programs are others",
  computers: "its computers are others",
  families: "the kind of computer is another", labels: "the label is another", args: "an argument is another",
  roles: "the requester's roles are others",
  users: "the requester is another", groups: "the requester's groups are others",
  owners: "the computer's owner is another",
  risks: "the risk is another", call: "nothing about the call can be judged",
};
const missed = (name) => MISSED[name] ?? oneLine(name, 80);

const OPEN = {
  paths: "its paths", programs: "its programs", computers: "the computer", families: "the kind of computer",
  labels: "the computer's label",
  args: "an argument", roles: "the requester's roles", users: "the requester", groups: "the requester's groups",
  owners: "the computer's owner", risks: "the risk", call: "the call itself",
};
// What nobody knows yet where a rule may match.
const open = (name) => OPEN[name] ?? oneLine(name, 80);

const OUTCOMES = { matched: "matched", possible: "not known yet", no: "did not match" };
const SAYS = { allow: "It would run without asking.", ask: "A person would be asked first.",
  hint: "The model would explain it first, and a person would be asked once the user has tried.",
  deny: "It would be denied." };

const written = (args) => JSON.stringify(args, null, 2);

function read(text) {
  try {
    const args = JSON.parse(text);
    return args && typeof args === "object" && !Array.isArray(args) ? { args }
      : { wrong: "Arguments are an object: { … }." };
  } catch (error) {
    return { wrong: `This is not JSON: ${error.message}.` };
  }
}

function Verdict({ told, policy }) {
  const rules = told.rules.map((report) => ({ report, rule: policy.rules[report.number - 1] }));
  const list = (outcome) => rules.filter(({ report, rule }) => report.outcome === outcome && rule?.id === report.id);
  const others = list("no");
  return html`<section class="verdict" aria-label="The verdict">
    <div class="card verdict-card effect-${told.effect}"><div class="line"><${Effect} effect=${told.effect} />
      <${Risk} risk=${told.risk} /></div>
      <p><b>${SAYS[told.effect]}</b></p><p><${Text} value=${told.reason} /></p>
      ${told.approval && html`<p><${Text} value=${told.approval.told} /></p>`}
      ${told.plan && html`<p>Plan mode is on: whatever changes something is denied.</p>`}</div>
    ${["matched", "possible"].map((outcome) => list(outcome).length > 0 && html`
      <h2>${outcome === "matched" ? "Rules that match" : "Rules of which it is not known yet"}</h2>
      <ol class="rules">${list(outcome).map(({ report, rule }) => html`<${Rule} rule=${rule} number=${report.number}>
        ${report.missed && html`<p class="muted">Not known yet: ${open(report.missed)}.</p>`}<//>`)}</ol>`)}
    ${told.custom.map((one) => html`<p><code><${Text} value=${one.id} /></code>: <${Text}
        value=${one.verdict.effect ?? "nothing against it"} /> <${Text} value=${one.verdict.reason} /></p>`)}
    ${others.length > 0 && html`<details><summary>${others.length} that did not match</summary>
      <ul class="missed">${others.map(({ report }) => html`
        <li><${Effect} effect=${report.effect} /> <b><${Text} value=${report.id} line=${80} /></b> <span class="muted">
        ${OUTCOMES.no}: ${missed(report.missed)}</span></li>`)}</ul></details>`}
  </section>`;
}

export function DryRun({ policy }) {
  const tools = [...new Set([...Object.keys(TOOLS), ...policy.rules.flatMap((rule) => rule.tools)])]
    .filter((one) => one !== "*");
  const [tool, setTool] = useState("cc_write");
  const [args, setArgs] = useState(written(TOOLS.cc_write.example));
  const [computer, setComputer] = useState("");
  const [told, setTold] = useState(null);
  const { value } = useReading("/v1/computers");
  const names = (value?.computers ?? []).map((one) => one.computer).sort(inOrder);
  const { busy, problem, doing } = useDoing();
  const parsed = read(args);
  useEffect(() => setTold(null), [tool, args, computer]);
  const choose = (name) => {
    // Text that somebody wrote is not thrown away.
    const isExample = Object.values(TOOLS).some(({ example }) => written(example) === args);
    if (TOOLS[name] && isExample) setArgs(written(TOOLS[name].example));
    setTool(name);
  };
  const submit = (event) => {
    event.preventDefault();
    doing(async () => setTold(await post("/v1/policy/dry-run",
      { tool: tool.trim(), args: parsed.args, ...(computer && { computer }) })));
  };
  return html`
    <form class="card" onSubmit=${submit} aria-label="Try a call">
      <p class="muted">What would the policy say? Nothing runs, and nobody is asked.</p>
      <label for="tool">Tool</label>
      <input id="tool" class="mono" list="tools" required maxlength="100" spellcheck=${false} autocapitalize="off"
          value=${tool} onInput=${(event) => choose(event.target.value)} />
      <datalist id="tools">${tools.map((one) => html`<option value=${one} />`)}</datalist>
      <label for="args">Arguments, as JSON</label>
      <textarea id="args" class="code" rows="5" spellcheck=${false} aria-describedby="args-wrong" value=${args}
          onInput=${(event) => setArgs(event.target.value)}></textarea>
      <p id="args-wrong" class="wrong" role="status">${parsed.wrong ?? ""}</p>
      <label for="on">On which computer? <span class="muted">(what is known of it counts)</span></label>
      <select id="on" value=${computer} onChange=${(event) => setComputer(event.target.value)}>
        <option value="">none in particular</option>${names.map((name) => html`
          <option value=${name}>${oneLine(name, 64)}</option>`)}</select>
      <${Trouble} problem=${problem} />
      <footer><button class="primary"
        disabled=${busy || Boolean(parsed.wrong) || !tool.trim()}>What does it say?</button></footer>
    </form>
    <p class="sr" role="status">${told ? `${SAYS[told.effect] ?? told.effect} ${told.risk} risk.` : ""}</p>
    ${told && html`<${Verdict} told=${told} policy=${policy} />`}`;
}
