// The people of a request: who approved it, who looks at it, what they say of it, and to whom it goes next.
import { html, useState } from "../lib/html.js";
import { id, post } from "../lib/api.js";
import { session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Text, oneLine } from "../lib/text.js";
import { Ago, Left, Trouble, useDoing } from "../lib/ui.js";

const MAX_CHARS = 2000;

// For somebody who may not decide it: the people who may, how far they are, and until when. `task`: as the server
// tells it whole, with its request.
export function WaitsFor({ task: { request, decided_by: deciders } }) {
  const { team, expires_at: until } = request;
  return html`<p>It waits for a decision of ${oneLine(deciders, 400)}.</p>
    ${team?.need > 1 && html`<p>${team.need} people have to approve it. Approved ${oneLine(team.progress, 500)}.</p>`}
    ${until && html`<p class="muted">The request <${Left} until=${until} />.</p>`}`;
}

// `open`: it still waits, so that something can be done.
export function Team({ request, open }) {
  const { name, roles } = useStore(session);
  const { busy, problem, doing } = useDoing();
  const [text, setText] = useState("");
  const team = request.team ?? { comments: [] };
  const does = (what, body = {}) => doing(() => post(`/v1/requests/${id(request.request_id)}/${what}`, body));
  const submit = (event) => {
    event.preventDefault();
    doing(async () => {
      await post(`/v1/requests/${id(request.request_id)}/comment`, { text });
      setText("");
    });
  };
  const other = team.claimed_by && team.claimed_by !== name;
  // No landmark: several requests stand together, and each has such a part.
  return html`<div class="team" role="group" aria-label="Reviewers">
    ${team.progress && html`<p class="progress"><b>Approved ${oneLine(team.progress, 500)}</b></p>`}
    ${!team.progress && team.escalated_to && html`<p>Escalated: ${oneLine(team.waits_for, 100)} decides it.</p>`}
    ${team.claimed_by && html`<div class=${other ? "note warn" : "note"} role="status"><p>
      ${other ? `${oneLine(team.claimed_by, 64)} looks at it` : "You look at it"}, and others wait. The claim <${Left}
        until=${team.claimed_until} />.</p></div>`}
    ${team.escalate_at && html`<p class="muted">The time of its present reviewers <${Left}
        until=${team.escalate_at} />; then it goes to other people.</p>`}
    ${team.comments.length > 0 && html`<ul class="comments">${team.comments.map((one) => html`<li>
      <b>${oneLine(one.by, 64)}</b> <span class="muted"><${Ago} at=${one.at} /></span> <${Text} value=${one.text} />
      </li>`)}</ul>`}
    <${Trouble} problem=${problem} />
    ${open && html`<details class="siblings"><summary>Claim, comment, escalate</summary>
      <div class="actions">
        ${team.claimed_by && (!other || roles.includes("admin"))
          ? html`<button type="button" disabled=${busy} onClick=${() => does("release")}>Release</button>`
          : html`<button type="button" disabled=${busy || Boolean(other)} title="Others wait for ten minutes"
              onClick=${() => does("claim")}>Claim</button>`}
        ${!team.escalated_to && html`<button type="button" disabled=${busy}
            title="Other people decide it, and its time begins again"
            onClick=${() => does("escalate")}>Escalate</button>`}
      </div>
      <form onSubmit=${submit}><label for="w-${request.request_id}">To the next reviewer</label>
        <textarea id="w-${request.request_id}" rows="2" maxlength=${MAX_CHARS} required value=${text}
            onInput=${(event) => setText(event.target.value)}></textarea>
        <div class="actions"><button disabled=${busy || !text.trim()}>Comment</button></div></form></details>`}
  </div>`;
}
