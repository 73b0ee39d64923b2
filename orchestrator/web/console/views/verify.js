// Whether the audit is as it was written: asked for with a button, answered in words.
import { html, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { link } from "../lib/route.js";
import { Text } from "../lib/text.js";
import { Ago, Trouble, plural, useDoing } from "../lib/ui.js";
import { Copy } from "./copy.js";

function Answer({ found, at }) {
  const count = found.faults.length;
  return html`<div class="note ${count ? "bad loud" : "good"}" role="status">
    <p><b>${count ? `${plural(count, "thing is", "things are")} not as written.` : "Nothing was changed."}</b>
      ${" "}${plural(found.items, "item")} in ${plural(found.streams, "stream")} were compared with their chains
        ${found.checkpoint_at ? html`, and with the checkpoint made <${Ago} at=${found.checkpoint_at} />`
        : "; there is no checkpoint yet"}. <span class="muted"><${Ago} at=${at} /></span></p>
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

export function Verify() {
  const [found, setFound] = useState(null);
  const { busy, problem, doing } = useDoing();
  const verify = () => doing(async () =>
    setFound({ found: await get("/v1/audit/verify"), at: new Date().toISOString() }));
  return html`<section class="verify" aria-label="Verify">
    <div class="actions"><button type="button" disabled=${busy} onClick=${verify}>
      ${busy ? "Comparing everything…" : "Verify it all"}</button>
      <span class="muted small">Is every item as it was written, and is none missing?</span></div>
    <${Trouble} problem=${problem} />
    ${found && html`<${Answer} found=${found.found} at=${found.at} />`}
  </section>`;
}
