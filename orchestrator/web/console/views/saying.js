// Rejecting with a reason, and answering in a call's place.
import { html, useState } from "../lib/html.js";
import { decisionsOn } from "../lib/decide.js";
import { useDraft } from "../lib/drafts.js";
import { Dialog, plural } from "../lib/ui.js";

const MAX_REASON = 2000, MAX_ANSWER = 20_000;

export function RejectDialog({ request, calls, note, onClose, onDecide }) {
  const [reason, setReason] = useDraft(request.request_id, "reason", "");
  // Always said: what a rejection means that does not say it, the task and the policy know.
  const [then, setThen] = useState("continue");
  const submit = (event) => {
    event.preventDefault();
    onDecide(decisionsOn(calls, "reject", { reason, on_reject: then }));
  };
  const pressed = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  };
  const choice = (value, name, says) => html`<label class="choice"><input type="radio" name="then" value=${value}
      checked=${then === value}
    onChange=${() => setThen(value)} /><span><b>${name}</b><small>${says}</small></span></label>`;
  return html`<${Dialog} title=${calls.length > 1 ? `Reject ${plural(calls.length, "call")}` : "Reject"}
      onClose=${onClose}>
    <form onSubmit=${submit}>
      <label for="reason">Reason <span class="muted">(may be empty; the model reads it)</span></label>
      <textarea id="reason" rows="3" maxlength=${MAX_REASON} value=${reason} aria-describedby="reason-keys"
          onKeyDown=${pressed} onInput=${(event) => setReason(event.target.value)}></textarea>
      <p id="reason-keys" class="muted small"><kbd>Enter</kbd> rejects, <kbd>Shift</kbd> <kbd>Enter</kbd> begins a new
        line.</p>
      <fieldset><legend>What then?</legend>
        ${choice("continue", "Reject and tell the model",
          "The task goes on; the model is told that a person rejected this, and why")}
        ${choice("cancel", "Reject and stop the task", "The task is canceled; nothing more of it runs")}
      </fieldset>
      ${note}
      <footer><button class="danger solid">${then === "cancel" ? "Reject and stop" : "Reject and tell"}</button>
        <button type="button" onClick=${onClose}>Not now</button></footer>
    </form>
  <//>`;
}

export function RespondDialog({ request, calls, note, onClose, onDecide }) {
  const [text, setText] = useDraft(request.request_id, `respond ${calls[0].call_id}`, "");
  const submit = (event) => {
    event.preventDefault();
    onDecide(decisionsOn(calls, "respond", { answer: text }));
  };
  return html`<${Dialog} title="Answer in its place" onClose=${onClose}>
    <form onSubmit=${submit}>
      <p class="muted">It does not run. The model is told your words in place of a result.</p>
      <label for="answer">What it is told</label>
      <textarea id="answer" rows="5" maxlength=${MAX_ANSWER} required value=${text}
          onInput=${(event) => setText(event.target.value)}></textarea>
      ${note}
      <footer><button class="primary" disabled=${!text.trim()}>Send</button><button type="button"
          onClick=${onClose}>Not now</button></footer>
    </form>
  <//>`;
}
