// Grants: what runs without asking because somebody said so, and taking that back.
import { html, useState } from "../lib/html.js";
import { ask, id } from "../lib/api.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { Text, oneLine } from "../lib/text.js";
import { Ago, Dialog, Empty, Facts, Left, Loading, Pre, Trouble, plural, pretty, useDoing, where } from "../lib/ui.js";

const state = (one) => (one.revoked ? ["Taken back", ""] : one.usable ? ["In force", "good"] : ["Over", ""]);
const SCOPES = { call: "this very call, in its task", task: "calls like it, in its task",
  session: "calls like it, in its session" };

function Grant({ one, onRevoke }) {
  const [says, tone] = state(one);
  return html`<li class="rule">
    <div class="line"><span class="badge ${tone}">${says}</span>
      <code class="tool"><${Text} value=${one.tool} line=${60} /></code><span>${where(one.computer)}</span>
      ${one.usable && html`<button type="button" class="small danger push"
          onClick=${() => onRevoke(one)}>Take it back…</button>`}</div>
    <${Facts} rows=${[
      ["Covers", SCOPES[one.scope] ?? one.scope],
      one.paths.length > 0 && ["Paths", html`<code><${Text} value=${one.paths.join(", ")} /></code>`],
      one.any_content && ["Text", "any"], ["Tasks of", html`<${Text} value=${one.user_id} line=${64} />`],
      ["Given by", html`<${Text} value=${one.granted_by} line=${64} />`],
      ["Given", html`<${Ago} at=${one.created_at} />`],
      one.usable && one.expires_at && ["Time", html`<${Left} until=${one.expires_at} />`],
      ["Used", `${plural(one.uses, "time")}${one.max_uses ? ` of ${one.max_uses}` : ""}`],
      ["Task", html`<a href=${link("tasks", [one.task_id])}>${one.task_id}</a>`],
    ]} />
    ${Object.keys(one.args).length > 0 && html`<details><summary>Exactly these arguments</summary>
      <${Pre} value=${pretty(one.args)} label="Arguments" /></details>`}
  </li>`;
}

export function Grants() {
  const { value, problem: unread, again } = useReading("/v1/grants");
  const [asked, setAsked] = useState(null);
  const { busy, problem, doing } = useDoing();
  const revoke = () => doing(async () => {
    await ask("DELETE", `/v1/grants/${id(asked.grant_id)}`);
    setAsked(null);
    again();
  });
  const list = value && [...value.grants].sort((a, b) =>
    b.usable - a.usable || b.created_at.localeCompare(a.created_at));
  return html`
    <p class="muted">What somebody approved with “Approve and remember”. It never covers what the policy denies, nor
      what is at critical risk.</p>
    <${Trouble} problem=${unread?.undelivered && value ? null : unread} again=${again} />
    ${!value && !unread && html`<${Loading} />`}
    ${list?.length === 0 && html`<${Empty} title="No grant">
      <p>Everything that the policy asks about is asked each time.</p><//>`}
    ${list?.length > 0 && html`<ul class="rules" aria-label="Grants">
      ${list.map((one) => html`<${Grant} key=${one.grant_id} one=${one} onRevoke=${setAsked} />`)}</ul>`}
    ${asked && html`<${Dialog} title="Take it back?" onClose=${() => setAsked(null)}>
      <p>From now on <code>${oneLine(asked.tool, 60)}</code> ${where(asked.computer)} is asked about again. What is
        running now is not stopped.</p>
      <${Trouble} problem=${problem} />
      <footer><button type="button" class="danger solid" disabled=${busy} onClick=${revoke}>Take it back</button>
        <button type="button" onClick=${() => setAsked(null)}>Not now</button></footer><//>`}`;
}
