// Editing a call in place: its text as text, or its arguments as JSON, and what that changes before it is approved.
import { html, useMemo, useState } from "../lib/html.js";
import { decisionsOn } from "../lib/decide.js";
import { Diff, unified } from "../lib/diff.js";
import { isLua } from "../lib/lua.js";
import { isPlain, oneLine } from "../lib/text.js";
import { Dialog, pretty } from "../lib/ui.js";

// The one argument of a tool that is a text to edit by itself.
const LONG = { cc_write: "content", cc_edit: "new", cc_shell: "command", local_write: "content", local_patch: "patch" };
const ODD = /[^\x00-\x7f]|\x7f/gu;

// As JSON, in which what no text box would show is an escape.
const asJson = (value) => JSON.stringify(value, null, 2).replace(ODD, (char) => (isPlain(char)
  ? char
  : Array.from({ length: char.length }, (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, "0")}`).join("")));

// {args} or {why}: what was typed as arguments.
function parsed(text) {
  try {
    const args = JSON.parse(text);
    return args && typeof args === "object" && !Array.isArray(args) ? { args }
      : { why: "That is JSON, but no object with the arguments by their names." };
  } catch (error) {
    return { why: `That is no JSON: ${error.message}.` };
  }
}

export function EditDialog({ calls: [call], onClose, onDecide }) {
  const name = LONG[call.tool];
  // A text box changes characters that it cannot show: such a text is edited as JSON.
  const asText = name !== undefined && typeof call.args[name] === "string" && isPlain(call.args[name]);
  const [json, setJson] = useState(!asText);
  const [text, setText] = useState(asText ? call.args[name] : "");
  const [typed, setTyped] = useState(() => asJson(call.args));
  const { args, why } = json ? parsed(typed) : { args: { ...call.args, [name]: text } };
  const changed = useMemo(() => (args ? differing(call.args, args) : []), [args && JSON.stringify(args)]);
  const turn = () => {
    if (json && args && isPlain(args[name])) setText(String(args[name] ?? ""));
    else if (!json) setTyped(asJson(args));
    setJson(!json);
  };
  const submit = (event) => {
    event.preventDefault();
    if (changed.length) onDecide(decisionsOn([call], "edit", { args }));
  };
  const lua = isLua(String(call.args.path ?? "x.txt"));
  return html`<${Dialog} title="Edit, then approve" wide onClose=${onClose}>
    <form onSubmit=${submit}>
      <label for="edited">${json ? "All arguments, as JSON" : html`<code>${name}
          </code> of ${oneLine(String(call.args.path ?? call.tool), 80)}`}</label>
      <textarea id="edited" class="code" rows="12" spellcheck=${false} autocapitalize="off" autocomplete="off"
          value=${json ? typed : text}
        aria-invalid=${Boolean(why)} aria-describedby="edited-why"
        onInput=${(event) => (json ? setTyped(event.target.value) : setText(event.target.value))}></textarea>
      <p id="edited-why" class="muted" role="status">${why ?? (changed.length ? "" : "Nothing is changed yet.")}</p>
      ${asText && html`<button type="button" class="quiet small" disabled=${Boolean(why)}
          onClick=${turn}>${json ? "Edit the text" : "Edit all arguments"}</button>`}
      ${changed.length > 0 && html`<h3>What you changed</h3>${changed.map(([key, before, after]) => html`
        <${Diff} key=${key} label=${oneLine(key)} lua=${lua && key === name} diff=${unified(before, after)} />`)}`}
      <footer><button class="primary" disabled=${!changed.length}>Approve as edited</button><button type="button"
          onClick=${onClose}>Drop it</button></footer>
    </form>
  <//>`;
}

function differing(before, after) {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
    .map((key) => [key, key in before ? pretty(before[key]) : "", key in after ? pretty(after[key]) : ""]);
}
