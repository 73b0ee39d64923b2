// Approve and remember: how far a grant reaches is said before it is given.
import { html, useState } from "../lib/html.js";
import { decisionsOn } from "../lib/decide.js";
import { Text, oneLine } from "../lib/text.js";
import { TOOLS } from "../lib/tools.js";
import { Dialog, pretty, where } from "../lib/ui.js";

const SESSION_H = 8, MOST_H = 168;

const words = (text) => text.split(/[\s,]+/).filter(Boolean);

export function GrantDialog({ request, calls: [call], note, onClose, onDecide }) {
  const [scope, setScope] = useState("call");
  const [globs, setGlobs] = useState("");
  const [open, setOpen] = useState(false);
  const [hours, setHours] = useState(SESSION_H);
  const texts = TOOLS[call.tool]?.texts ?? [];
  const pattern = scope !== "call";
  const remember = {
    scope,
    ...(pattern && words(globs).length && { paths: words(globs) }),
    ...(pattern && open && texts.length && { any_content: true }),
    ...(scope === "session" && { expires_s: hours * 3600 }),
  };
  const submit = (event) => {
    event.preventDefault();
    onDecide(decisionsOn([call], "approve", { remember }));
  };
  const choice = (value, name) => html`<label class="choice"><input type="radio" name="scope" value=${value}
      checked=${scope === value}
    onChange=${() => setScope(value)} /><span>${name}</span></label>`;
  const session = oneLine(request.session_id, 100);
  const like = call.grant_paths.length ? "these paths" : "calls like it";
  return html`<${Dialog} title="Approve and remember" onClose=${onClose}>
    <form onSubmit=${submit}>
      <fieldset><legend>From now on without asking</legend>
        ${choice("call", "this very call, again in this task")}
        ${choice("task", `${like}, in this task`)}
        ${choice("session", `${like}, in this session for some hours`)}
      </fieldset>
      ${pattern && call.grant_paths.length > 0 && html`<label for="globs">Other paths, as globs <span
          class="muted">(empty: exactly those of this call)</span></label>
        <input id="globs" value=${globs} onInput=${(event) => setGlobs(event.target.value)} spellcheck=${false}
            autocapitalize="off" />`}
      ${pattern && texts.length > 0 && html`<label class="choice"><input type="checkbox" checked=${open}
          onChange=${(event) => setOpen(event.target.checked)} />
        <span>With any text (${texts.join(", ")}), not only this one</span></label>`}
      ${scope === "session" && html`<label for="hours">For how many hours</label>
        <input id="hours" type="number" min="0.1" max=${MOST_H} step="any" required value=${hours}
            onInput=${(event) => setHours(Number(event.target.value))} />`}
      <div class="note warn"><p>This will run from now on without asking:</p><ul>
        <li><code>${oneLine(call.tool)}</code> ${where(call.computer)}</li>
        ${pattern
          ? html`${(words(globs).length ? words(globs) : call.grant_paths).map((path) => html`<li>path <code><${Text}
              value=${path} /></code></li>`)}
            ${texts.length > 0 && html`<li>${texts.join(" and ")}: ${open ? "any text" : "exactly as above"}</li>`}
            ${fixed(call, texts).map(([name, value]) => html`<li>${oneLine(name)}: <code><${Text}
                value=${pretty(value)} /></code></li>`)}`
          : html`<li>exactly this call</li>`}
        ${TOOLS[call.tool]?.runs && html`<li>only as long as the program's file stays the same</li>`}
        <li>${scope === "session"
          ? `in every task of ${oneLine(request.requester, 64)} in session ${session}, for ${hours} h`
          : `in task ${oneLine(request.task_id)}, until it ends`}</li>
        <li>never what the policy denies, and nothing at critical risk</li>
      </ul></div>
      ${note}
      <footer><button class="primary">Approve and remember</button>
        <button type="button" onClick=${onClose}>Not now</button></footer>
    </form>
  <//>`;
}

const fixed = (call, texts) =>
  Object.entries(call.args).filter(([name, value]) => !texts.includes(name)
    && ![value, String(value).replace(/^\/+/, "")].some((one) => call.grant_paths.includes(one)));
