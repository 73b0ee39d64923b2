// The holders of tokens: people, programs and computers; a token is shown once, and revoked at once.
import { html, useEffect, useState } from "../lib/html.js";
import { ask, id, now, post } from "../lib/api.js";
import { onHint } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { may, session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Text, inOrder, oneLine } from "../lib/text.js";
import { Ago, Dialog, Icon, Loading, Trouble, plural, span, useDoing } from "../lib/ui.js";
import { Copy } from "./copy.js";
import { Groups } from "./groups.js";

const ROLES = [
  ["viewer", "Looks at the tasks and computers of their groups, and changes nothing"],
  ["submitter",
    "Submits tasks and answers their questions; by default reviewers and admins decide what these ask"],
  ["reviewer",
    "Decides what submitters, programs and their own tasks ask, unless the server's setting approvers says another; " +
    "reads and verifies the audit of their groups"],
  ["admin", "All of that, and pairs computers, makes and revokes tokens, types at any computer"],
];
const HOLDERS = [
  ["person", "A person", "signs in here, and decides"], ["agent", "A program", "submits tasks, and never decides"],
];
const GROUPS = [["person", "People"], ["agent", "Programs"], ["computer", "Computers"]];

function Roles() {
  return html`<dl class="roles">
    ${ROLES.map(([name, says]) => html`<div><dt><span class="badge">${name}</span></dt><dd>${says}</dd></div>`)}</dl>`;
}

function Made({ made, onClose }) {
  const agent = made.kind === "agent";
  return html`<${Dialog} title="The token of ${made.name}" stays onClose=${onClose}>
    <div class="note warn"><p>It is shown this once: what is kept here is only its hash.</p></div>
    <div class="copyable"><code>${made.token}</code><${Copy} text=${made.token} name="Copy the token" /></div>
    ${agent ? html`<p>A program sends it as <code>Authorization: Bearer TOKEN</code>, or has it
      in <code>CC_ORCHESTRATOR_TOKEN</code>. </p>`
      : html`<p>Give it to ${made.name} over a way that others do not read. It signs in
        at <code>${location.origin}/</code>, and on a command line it stands
        in <code>CC_ORCHESTRATOR_TOKEN</code>.</p>`}
    <p>${oneLine(made.may ?? "", 300)}</p>
    <p class="muted">Lost? Revoke it and make another.</p>
    <footer><button type="button" class="primary" onClick=${onClose}>I have it</button></footer>
  <//>`;
}

function Add({ known, onMade, onClose }) {
  const [kind, setKind] = useState("person");
  const [name, setName] = useState("");
  const [roles, setRoles] = useState(["submitter"]);
  const { busy, problem, doing } = useDoing();
  const submit = (event) => {
    event.preventDefault();
    const wanted = kind === "agent" ? roles.filter((one) => one === "submitter") : roles;
    doing(async () => onMade(await post("/v1/tokens", { kind, name: name.trim(), roles: wanted })));
  };
  const again = known.find((one) => one.kind === kind && one.name === name.trim());
  const turn = (role, on) =>
    setRoles(ROLES.map(([one]) => one).filter((one) => (one === role ? on : roles.includes(one))));
  return html`<${Dialog} title="Add somebody" onClose=${onClose}><form onSubmit=${submit}>
    <fieldset><legend>Who?</legend><div class="ways">
      ${HOLDERS.map(([value, title, says]) => html`
        <label class="choice"><input type="radio" name="kind" checked=${kind === value}
          onChange=${() => setKind(value)} /><span><b>${title}</b><small>${says}</small></span></label>`)}</div>
        </fieldset>
    <label for="who">Name <span class="muted">(letters, digits, - _ and .)</span></label>
    <input id="who" required maxlength="64" autocomplete="off" autocapitalize="off" spellcheck=${false} value=${name}
        onInput=${(event) => setName(event.target.value)} />
    <fieldset><legend>Roles</legend>${ROLES.filter(([role]) => kind === "person" || role === "submitter")
      .map(([role, says]) => html`<label class="choice"><input type="checkbox" checked=${roles.includes(role)}
        onChange=${(event) => turn(role, event.target.checked)} />
      <span><b>${role}</b><small>${says}</small></span></label>`)}</fieldset>
    ${again && html`<p class="note warn" role="status">${again.name} is here already: this is one more token, beside
      what ${kind === "person" ? "they have" : "it has"}, with these roles.</p>`}
    <${Trouble} problem=${problem} />
    <footer><button class="primary" disabled=${busy || !name.trim() || (kind === "person" && !roles.length)}>
      Make the token</button>
      <button type="button" onClick=${onClose}>Not now</button></footer>
  </form><//>`;
}

function Revoke({ holder, onDone, onClose }) {
  const { busy, problem, doing } = useDoing();
  const revoke = () => doing(async () => {
    await ask("DELETE", `/v1/tokens/${holder.kind}/${id(holder.name)}`);
    onDone();
  });
  const what = {
    person: "Every token of theirs ends at once, and so do their browsers' sign-ins and open pages. Their tasks go on.",
    agent: "The program is refused from now on. Its tasks go on.",
    computer: "Its connection ends at once, and its tasks wait. To come back it has to be paired again.",
  }[holder.kind];
  return html`<${Dialog} title="Revoke ${holder.name}?" onClose=${onClose}>
    <p>${what}</p>
    ${holder.yours && html`<div class="note bad"><p><b>This is you.</b> You will be signed out, and where nobody else is
      an admin, nobody can make tokens here any more.</p></div>`}
    <${Trouble} problem=${problem} />
    <footer><button type="button" class="danger solid" disabled=${busy} onClick=${revoke}>Revoke</button>
      <button type="button" onClick=${onClose}>Not now</button></footer><//>`;
}

// Tokens of one holder are revoked together: they stand there as one.
function holders(tokens) {
  const all = new Map();
  for (const one of tokens.filter((each) => !each.revoked)) {
    const key = `${one.kind} ${one.name}`;
    const before = all.get(key) ?? { ...one, roles: [], count: 0, yours: false };
    const roles = [...new Set([...before.roles, ...one.roles])];
    all.set(key, { ...before, roles, owner: one.owner ?? before.owner, count: before.count + 1,
      yours: before.yours || one.yours, created_at: one.created_at ?? before.created_at });
  }
  return [...all.values()].sort((a, b) => inOrder(a.name, b.name));
}

function Holder({ one, onRevoke }) {
  const name = oneLine(one.name, 64);
  return html`<li class="holder">
    <div><b>${one.kind === "computer" ? html`<a href=${link("computers", [one.name])}>${name}</a>` : name}</b>
    ${one.yours && html` <span class="badge busy">you</span>`}
      ${" "}${one.roles.map((role) => html`<span class="badge">${oneLine(role, 30)}</span> `)}
      <span class="row-meta muted">${one.count > 1 && `${plural(one.count, "token")} · `}
        ${one.away && html`away, <${Text} value=${one.away.to} line=${64} /> decides for them
          ${" "}for ${span((Date.parse(one.away.until) - now()) / 1000)} · `}
        ${one.owner && html`paired by <${Text} value=${one.owner} line=${64} /> · `}
        ${one.created_at ? html`since <${Ago} at=${one.created_at} />` : "since long ago"}</span></div>
    <button type="button" class="small danger" aria-label="Revoke ${name}"
        onClick=${() => onRevoke(one)}>Revoke…</button></li>`;
}

function Group({ kind, title, list, onRevoke }) {
  return html`<section class="part" aria-label=${title}><div class="head">
    <h2>${title}</h2>${kind === "computer" && html`<a class="button" href=${link("pairing")}>Pair a computer</a>`}</div>
    ${list.length ? html`<ul class="rows plain">
      ${list.map((one) => html`<${Holder} key=${one.name} one=${one} onRevoke=${onRevoke} />`)}</ul>`
      : html`<p class="muted">${kind === "computer" ? "None is paired." : "None."}</p>`}</section>`;
}

function Myself() {
  const { name, roles } = useStore(session);
  return html`<div class="note">
    <p>You are <b>${oneLine(name, 64)}</b>, with the role${roles.length === 1 ? "" : "s"}
    ${" "}${roles.map((one) => oneLine(one, 40)).join(", ")}. Who else
    may come in, only admins see and change: ask one of them.</p></div>
    <h2>What the roles may</h2><${Roles} />`;
}

export function People() {
  const admin = may("everything");
  const { value, problem, again } = useReading(admin ? "/v1/tokens" : null);
  const [open, setOpen] = useState(null);
  useEffect(() => onHint("computers", again), []);
  const all = value && holders(value.tokens);
  const close = () => setOpen(null);
  const revoked = value?.tokens.filter((one) => one.revoked).length ?? 0;
  return html`<div class="page narrow">
    <div class="head"><h1>People</h1>
      ${admin && html`<button type="button" class="primary" onClick=${() => setOpen({ add: true })}>
      <${Icon} name="plus" /> Add somebody</button>`}</div>
    ${!admin && html`<${Myself} />`}
    ${!admin && html`<${Groups} />`}
    <${Trouble} problem=${problem?.undelivered && value ? null : problem} again=${again} />
    ${admin && !value && !problem && html`<${Loading} rows=${4} />`}
    ${all && html`${GROUPS.map(([kind, title]) => html`
      <${Group} key=${kind} kind=${kind} title=${title} list=${all.filter((one) => one.kind === kind)}
        onRevoke=${(holder) => setOpen({ revoke: holder })} />`)}
      ${revoked > 0 && html`<p class="muted small">${plural(revoked, "token")} that
        ${" "}${revoked === 1 ? "was revoked is" : "were revoked are"} not shown;
        ${" "}<a href=${link("audit", [], { kind: "token_revoked" })}>the audit</a> has when and by whom.</p>`}
      <${Groups} />
      <details class="card"><summary>What the roles may</summary><${Roles} /></details>`}
    ${open?.add && html`<${Add} known=${all ?? []} onClose=${close}
        onMade=${(made) => { setOpen({ made }); again(); }} />`}
    ${open?.made && html`<${Made} made=${open.made} onClose=${close} />`}
    ${open?.revoke && html`<${Revoke} holder=${open.revoke} onClose=${close} onDone=${() => { close(); again(); }} />`}
  </div>`;
}
