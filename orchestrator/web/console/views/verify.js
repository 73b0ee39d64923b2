// Whether the audit is as it was written: asked for with a button, answered in words.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { link } from "../lib/route.js";
import { Text } from "../lib/text.js";
import { Ago, Trouble, plural, useDoing } from "../lib/ui.js";
import { Copy } from "./copy.js";

function Answer({ found, at, again }) {
  const count = found.faults.length;
  return html`<div class="note ${count ? "bad loud" : "good"}" role="status">
    <p><b>${count ? `${plural(count, "thing is", "things are")} not as written.` : "Nothing was changed."}</b>
      ${" "}${plural(found.items, "item")} in ${plural(found.streams, "stream")} were compared with their chains
        ${found.checkpoint_at ? html`, and with the checkpoint made <${Ago} at=${found.checkpoint_at} />`
        : "; there is no checkpoint yet"}. <span class="muted"><${Ago} at=${at} /></span></p>
    ${!found.full && html`<p>${plural(found.noted, "stream is", "streams are")} as verified last, and not read again: an
      edit behind that is not found. <button type="button" onClick=${again}>Read everything</button></p>`}
    ${count > 0 && html`<ul>${found.faults.map((one) => html`<li>
      <b>${one.what}</b>: <${Text} value=${one.detail} />
        ${one.stream && html` <a href=${link("audit", [], one.stream === "system" ? { system: "1" }
        : { task: one.stream })}>${one.stream}${one.version ? `#${one.version}` : ""}</a>`}</li>`)}</ul>`}
    <details><summary>The digest over all heads</summary>
      <p>Keep it somewhere else: compared with a later one of the same moment it shows whether the whole store was
      replaced.</p>
      <p class="copyable"><code>${found.heads_sha256}</code><${Copy} text=${found.heads_sha256} /></p></details>
  </div>`;
}

// Asked for again and again while it goes on: the server ends what nobody asks for any more.
const ASK_EVERY_S = 2;

function Progress({ far, cancel }) {
  return html`<p class="verifying" role="status"><progress aria-label="Verified" max=${far.of || 1} value=${far.done} />
    <span class="small">${far.of ? `${far.done} of ${plural(far.of, "stream")}` : "It begins"}</span>
    <button type="button" onClick=${cancel}>Cancel</button></p>`;
}

export function Verify() {
  const [found, setFound] = useState(null);
  const [far, setFar] = useState(null);
  const { busy, problem, doing } = useDoing();
  const stop = useRef(null);
  const cancel = () => stop.current?.abort();
  useEffect(() => cancel, []);
  const verify = (full) => doing(async () => {
    const { signal } = stop.current = new AbortController();
    setFar({ done: 0, of: 0 });
    try {
      let told = {};
      while (!told.faults) {
        told = await get(`/v1/audit/verify?wait_s=${ASK_EVERY_S}${full ? "&full=1" : ""}`, signal);
        if (!told.faults) setFar(told);
      }
      setFound({ found: told, at: new Date().toISOString() });
    } catch (failed) {
      if (!signal.aborted) throw failed;
    } finally {
      setFar(null);
    }
  });
  return html`<section class="verify" aria-label="Verify">
    <div class="actions"><button type="button" disabled=${busy} onClick=${() => verify(false)}>
      ${busy ? "Comparing everything…" : "Verify it all"}</button>
      <span class="muted small">Is every item as it was written, and is no item missing?</span></div>
    ${far && html`<${Progress} far=${far} cancel=${cancel} />`}
    <${Trouble} problem=${problem} />
    ${found && !far && html`<${Answer} found=${found.found} at=${found.at} again=${() => verify(true)} />`}
  </section>`;
}
