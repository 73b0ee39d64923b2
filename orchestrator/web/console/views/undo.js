// Taking back what a task changed: what that would do place by place, choices where somebody changed something since,
// then it begins.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { COUNTS_ONCE, id, newKey, post } from "../lib/api.js";
import { go, link } from "../lib/route.js";
import { Text } from "../lib/text.js";
import { Dialog, Hash, Loading, Trouble, plural, useDoing } from "../lib/ui.js";

const DOES = { restore: "is put back", remove: "is removed", conflict: "was changed since", nothing: "is as it was",
  away: "cannot be looked at now" };
const CHOICES = {
  file: [["keep", "leave it as it is"], ["restore", "put the old one in its place"],
    ["beside", "put the old one beside it"]],
  absent: [["keep", "leave it as it is"], ["restore", "remove it"]],
};

// Whether some of a task's changes are left to take back: an undo that goes on, or took all back and stands, leaves
// none.
export const isLeft = ({ changes, outcome }) => changes > 0 && (!outcome || Boolean(outcome.undone_by)
  || (!outcome.open && !(outcome.status === "Completed" && outcome.whole && !outcome.kept)));

// What is done at each place; `onChoose`: where somebody changed it since, that may be chosen.
export function PlannedPlaces({ places, choices = {}, onChoose }) {
  return html`<ul class="places">${places.map((one) => html`<li key=${one.place} class="verdict-${one.verdict}">
    <p><code><${Text} value=${one.place} /></code> <b>${DOES[one.verdict]}</b>${one.target === "absent"
      ? html`<span class="muted">; it was not there before</span>`
      : html` <span class="muted"><${Hash} value=${one.target} /></span>`}</p>
    ${one.why && html`<p class="muted prose"><${Text} value=${one.why} /></p>`}
    ${one.verdict === "conflict" && onChoose && html`<label>What then? <select value=${choices[one.place] ?? "keep"}
        onChange=${(event) => onChoose(one.place, event.target.value)}>
      ${CHOICES[one.target === "absent" ? "absent" : "file"].map(([value, name]) => html`
        <option value=${value}>${name}</option>`)}</select></label>`}</li>`)}</ul>`;
}

export function UndoDialog({ taskId, onClose }) {
  const [preview, setPreview] = useState(null);
  const [choices, setChoices] = useState({});
  const { busy, problem, doing } = useDoing();
  const key = useRef(newKey());
  const path = `/v1/tasks/${id(taskId)}/undo`;
  const look = () => doing(async () => setPreview(await post(path, { dry_run: true })));
  useEffect(() => { look(); }, []);
  const begin = () => doing(async () => {
    const task = await post(path, { choices, idempotency_key: key.current });
    onClose();
    go(link("tasks", [task.task_id]));
  });
  const choose = (place, choice) => {
    // Another undo than the one that was sent needs another key.
    key.current = newKey();
    setChoices({ ...choices, [place]: choice });
  };
  const acts = preview?.places.filter((one) => one.verdict !== "nothing").length ?? 0;
  return html`<${Dialog} title="Undo" wide onClose=${onClose}>
    ${!preview && !problem && html`<${Loading} />`}
    <${Trouble} problem=${preview && problem?.undelivered ? { sentence: COUNTS_ONCE } : problem}
        again=${preview ? null : look} />
    ${preview && html`
      <p>${acts ? `What putting back would do now, at ${plural(acts,
        "place")}. It is a task of its own and passes the policy.`
        : "There is nothing to put back: everything is as it was."}</p>
      <${PlannedPlaces} places=${preview.places} choices=${choices} onChoose=${choose} />
      ${[["What nobody can take back", preview.cannot_be_undone],
        ["Not heard of yet; the undo waits for it", preview.not_heard]].map(([title, list]) => list.length > 0 && html`
        <h3>${title}</h3><ul>${list.map((one) => html`<li>Step ${one.step}, <code>${one.tool}</code>: <${Text}
            value=${one.what} /></li>`)}</ul>`)}
      <footer><button type="button" class="primary" disabled=${busy || !acts} onClick=${begin}>Begin the undo</button>
        <button type="button" disabled=${busy} onClick=${look}>Look again</button><button type="button"
            onClick=${onClose}>Not now</button></footer>`}
  <//>`;
}
