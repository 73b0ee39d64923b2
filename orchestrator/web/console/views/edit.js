// Editing a call in place: its text as text, or its arguments as JSON, and the change before it is approved.
import { html, useMemo } from "../lib/html.js";
import { decisionsOn } from "../lib/decide.js";
import { Diff, unified } from "../lib/diff.js";
import { forget, useDraft } from "../lib/drafts.js";
import { isLua } from "../lib/lua.js";
import { isPlain, oneLine } from "../lib/text.js";
import { TOOLS } from "../lib/tools.js";
import { Dialog } from "../lib/ui.js";
import { editedParts } from "./call.js";

const MAX_REASON = 2000;
const ODD = /[^\x00-\x7f]|\x7f/gu;

// As JSON, in which a character that no text box would show is an escape.
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
    return { why: `That is not JSON: ${error.message}.` };
  }
}

// A text box changes characters that it cannot show: such a text is edited as JSON.
const fitsBox = (text) => typeof text === "string" && isPlain(text);

export function EditDialog({ request, calls: [call], note, onClose, onDecide }) {
  const name = TOOLS[call.tool]?.edits;
  const first = useMemo(() => ({ json: !(name && fitsBox(call.args[name])), args: call.args, typed: "" }), []);
  // `args` are the arguments with the text; `typed` is the JSON that was typed, empty at first.
  const [draft, setDraft] = useDraft(request.request_id, `edit ${call.call_id}`, first);
  const [reason, setReason] = useDraft(request.request_id, `edit reason ${call.call_id}`, "");
  const { json } = draft;
  const typed = draft.typed || asJson(draft.args);
  const { args, why } = json ? parsed(typed) : { args: draft.args };
  const changed = useMemo(() => (args ? editedParts(call.args, args) : []), [args && JSON.stringify(args)]);
  const type = (text) =>
    setDraft(json ? { ...draft, typed: text } : { ...draft, args: { ...draft.args, [name]: text } });
  const turn = () => setDraft({ json: !json, args, typed: "" });
  const odd = json && args !== undefined && name !== undefined && !fitsBox(args[name]);
  const drop = () => {
    forget(request.request_id);
    onClose();
  };
  const submit = (event) => {
    event.preventDefault();
    if (changed.length) onDecide(decisionsOn([call], "edit", { args, reason }));
  };
  const lua = isLua(String(call.args.path ?? "x.txt"));
  return html`<${Dialog} title="Edit, then approve" wide onClose=${onClose}>
    <form onSubmit=${submit}>
      <label for="edited">${json ? "All arguments, as JSON" : html`<code>${name}
          </code> of ${oneLine(String(draft.args.path ?? call.tool), 80)}`}</label>
      <textarea id="edited" class="code" rows="12" spellcheck=${false} autocapitalize="off" autocomplete="off"
          value=${json ? typed : draft.args[name]}
        aria-invalid=${Boolean(why)} aria-describedby="edited-why"
        onInput=${(event) => type(event.target.value)}></textarea>
      <p id="edited-why" class="muted" role="status">${why ?? (changed.length ? "" : "Nothing is changed yet.")}</p>
      ${name !== undefined && html`<button type="button" class="quiet small" disabled=${Boolean(why) || odd}
          onClick=${turn}>${json ? "Edit the text" : "Edit all arguments"}</button>`}
      ${odd && html`<p class="muted small">What a text box would not show as it is, is edited as JSON.</p>`}
      ${changed.length > 0 && html`<h3>What you changed</h3>${changed.map(([key, before, after]) => html`
        <${Diff} key=${key} label=${oneLine(key)} lua=${lua && key === name} diff=${unified(before, after)} />`)}`}
      <label for="edit-reason">Reason <span class="muted">(may be empty; the model reads it)</span></label>
      <input id="edit-reason" maxlength=${MAX_REASON} value=${reason}
          onInput=${(event) => setReason(event.target.value)} />
      ${note}
      <footer><button class="primary" disabled=${!changed.length}>Approve as edited</button>
        <button type="button" onClick=${drop}>Drop it</button></footer>
    </form>
  <//>`;
}
