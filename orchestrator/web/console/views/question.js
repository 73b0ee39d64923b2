// A question of a task, and the box for its answer.
import { html, useRef } from "../lib/html.js";
import { answer, outcomes } from "../lib/decide.js";
import { useDraft } from "../lib/drafts.js";
import { link } from "../lib/route.js";
import { useStore } from "../lib/store.js";
import { Text } from "../lib/text.js";
import { useArriving, useFocusKept } from "../lib/ui.js";
import { Outcome, useSettled } from "./request.js";

const MAX_CHARS = 20_000;

// `question`: {task_id, question_id, question, goal, options}. A button sends the number of its choice: what the
// server has is then what the model gets, also where the page was shown less. `arrives`, `onSent`: as of a request.
export function Question({ question, open, titled = true, arrives = false, onSent }) {
  const [text, setText] = useDraft(question.question_id, "answer", "");
  const outcome = useStore(outcomes).get(question.question_id);
  const box = useRef(null);
  useFocusKept(box, [outcome?.state, open]);
  useArriving(box, arrives);
  const send = (said) => {
    answer(question, said);
    onSent?.(question.question_id);
  };
  const submit = (event) => {
    event.preventDefault();
    send(text);
  };
  const options = question.options ?? [];
  const sending = outcome?.state === "sending";
  const settled = useSettled(question.question_id);
  return html`<article class="request question" ref=${box} data-question=${question.question_id}>
    ${titled && html`<header><h2 tabindex="-1">A task asks you</h2></header>
      ${question.goal && html`<p class="goal"><${Text} value=${question.goal} /></p>`}
      <p class="about"><a href=${link("tasks", [question.task_id])}>See the task</a></p>`}
    <blockquote><span class="label">The model asks</span><${Text} value=${question.question} /></blockquote>
    <${Outcome} outcome=${outcome} />
    ${open
      ? html`<form onSubmit=${submit}>${options.length > 0 && html`<ol class="choices" aria-label="Choices">
          ${options.map((one, i) => html`<li key=${i}><button type="button" disabled=${sending || !settled}
              onClick=${() => send(String(i + 1))}>${i + 1}. <${Text} value=${one} /></button></li>`)}
          </ol>`}<label for="a-${question.question_id}">${options.length > 0
            ? "Or your own words (a number alone picks that choice)" : "Your answer"}</label>
          <textarea id="a-${question.question_id}" rows="3" maxlength=${MAX_CHARS} required value=${text}
              onInput=${(event) => setText(event.target.value)}></textarea>
          <div class="actions"><button class="primary"
              disabled=${!text.trim() || sending}>${sending ? "Sending…" : "Answer"}</button></div></form>`
      : !outcome && html`<p class="note" role="status">It needs no answer any more.</p>`}
  </article>`;
}
