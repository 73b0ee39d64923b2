// One backup: what it holds, how much of it is put back, what that would do now, and then the task that does it.
import { html, useState } from "../lib/html.js";
import { id, post } from "../lib/api.js";
import { useReading } from "../lib/reading.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { Text, oneLine } from "../lib/text.js";
import { Ago, Dialog, Facts, Hash, Loading, Trouble, plural, size, useDoing } from "../lib/ui.js";
import { PlannedPlaces } from "./undo.js";

const SHOWN = 100, MOST = 500;

// What it holds, narrowed down by a part of the path; with `onPick` each can be taken.
function Holds({ paths, picked, onPick }) {
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  const found = paths.filter((one) => !wanted || one.path.toLowerCase().includes(wanted));
  const row = (one) => html`<code><${Text} value=${one.path || "/"} /></code>
    ${" "}<span class="muted">${one.state === "directory" ? "directory" : size(one.size)}</span>`;
  return html`<div class="holds">
    ${paths.length > 8 && html`<label class="sr" for="find-path">Find a path</label><input id="find-path" type="search"
        placeholder="Find a path" spellcheck=${false} value=${text}
        onInput=${(event) => setText(event.target.value)} />`}
    <div class="scroll" tabindex="0" role="group" aria-label="What it holds">
      <ul>${found.slice(0, SHOWN).map((one) => html`<li key=${one.path}>${onPick
      ? html`<label class="check"><input type="checkbox" checked=${picked.has(one.path)}
          disabled=${!picked.has(one.path) && picked.size >= MOST} onChange=${() => onPick(one.path)} />
          <span>${row(one)}</span></label>`
      : html`<p>${row(one)}</p>`}</li>`)}</ul></div>
    ${found.length > SHOWN && html`<p class="muted small">And ${found.length - SHOWN} more: narrow them down
      above.</p>`}
    ${!found.length && html`<p class="muted small">${wanted ? "No path has that in it." : "It is empty."}</p>`}
  </div>`;
}

function Preview({ preview }) {
  const acts = preview.places.filter((one) => one.verdict !== "nothing");
  const same = preview.places.length - acts.length;
  const since = preview.came_since;
  return html`<div class="part" role="group" aria-label="What it would do">
    <h3>What it would do now</h3>
    ${!preview.online && html`<p class="note warn">${oneLine(preview.computer, 64)} is away, so nobody can look: the
      task waits for it.</p>`}
    <p>${acts.length ? `It acts at ${plural(acts.length, "place")}.` : "Nothing: all of this is as it was."}
      ${same > 0 && acts.length > 0 && (same === 1 ? " One is as it was." : ` ${same} are as they were.`)}
      ${since > 0 && !preview.exact && ` ${since} came since and ${since === 1 ? "stays" : "stay"}.`}</p>
    <${PlannedPlaces} places=${acts} />
  </div>`;
}

export function RestoreDialog({ computer, backup, onClose }) {
  const base = `/v1/computers/${id(computer)}`;
  const { value, problem: unread, again } = useReading(`${base}/backups/${id(backup.backup_id)}`);
  const [some, setSome] = useState(false);
  const [picked, setPicked] = useState(new Set());
  const [exact, setExact] = useState(false);
  const [preview, setPreview] = useState(null);
  const { busy, problem, doing } = useDoing();
  // A preview holds for exactly the chosen options.
  const changing = (change) => {
    setPreview(null);
    change();
  };
  const pick = (path) => changing(() => setPicked((before) => {
    const after = new Set(before);
    if (!after.delete(path)) after.add(path);
    return after;
  }));
  const body = { backup: backup.backup_id, paths: some ? [...picked] : [], exact };
  const look = () => doing(async () => setPreview(await post(`${base}/restore`, { ...body, dry_run: true })));
  const begin = () => doing(async () => {
    const task = await post(`${base}/restore`, body);
    onClose();
    go(link("tasks", [task.task_id]));
  });
  const acts = preview?.places.some((one) => one.verdict !== "nothing")
    || preview?.online === false;
  return html`<${Dialog} title="Backup of ${oneLine(computer, 64)}" wide onClose=${onClose}>
    <${Facts} rows=${[
      ["Made", html`<${Ago} at=${backup.at} /> by <${Text} value=${backup.by} line=${64} />`],
      ["Holds", `${plural(backup.files, "file")}, ${size(backup.bytes)}`],
      ["Id", html`<code>${backup.backup_id}</code>`],
      ["Listing", html`<${Hash} value=${backup.listing} />`],
      backup.note && ["Note", html`<${Text} value=${backup.note} line=${200} />`],
    ]} />
    ${backup.skipped.length > 0 && html`<details><summary>Left out: ${
      plural(backup.skipped.length + backup.skipped_more, "path")}</summary>
      <ul class="left-out">${backup.skipped.map(({ path, why }) => html`<li><code><${Text} value=${path} /></code>
        ${" "}<span class="muted"><${Text} value=${why} /></span></li>`)}</ul></details>`}
    <${Trouble} problem=${unread} again=${again} />
    ${!value && !unread && html`<${Loading} />`}
    ${value && html`
      ${may("submit") && html`<fieldset><legend>What is put back?</legend><div class="ways">
        <label class="choice"><input type="radio" name="how-much" checked=${!some}
            onChange=${() => changing(() => setSome(false))} /><span><b>All of it</b>
          <small>Every file, as it was then</small></span></label>
        <label class="choice"><input type="radio" name="how-much" checked=${some}
            onChange=${() => changing(() => setSome(true))} /><span><b>Only some paths</b>
          <small>And what is below them</small></span></label></div></fieldset>`}
      <${Holds} paths=${value.paths} picked=${picked} onPick=${some && may("submit") ? pick : null} />
      <${Trouble} problem=${problem} />
      ${may("submit") && html`
        <label class="check"><input type="checkbox" checked=${exact}
            onChange=${(event) => changing(() => setExact(event.target.checked))} />
          <span>Also remove what came since, so that it is exactly as it was</span></label>
        ${preview && html`<${Preview} preview=${preview} />`}
        <footer>${preview
          ? html`<button type="button" class="primary" disabled=${busy || !acts} onClick=${begin}>Put it back</button>
            <button type="button" disabled=${busy} onClick=${look}>Look again</button>`
          : html`<button type="button" class="primary" disabled=${busy || (some && !picked.size)}
              onClick=${look}>${busy ? "Looking…" : "See what that would do"}</button>`}
          <button type="button" onClick=${onClose}>Not now</button></footer>
        ${preview && html`<p class="muted small">It is a task of its own: it passes the policy, waits for approval, and
          can be undone.</p>`}`}`}
  <//>`;
}
