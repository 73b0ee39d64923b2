// What came of it all over time, as figures that are fetched when somebody comes to look at them.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { later } from "../lib/later.js";
import { useInSight } from "../lib/seen.js";

const Figures = later("views/figures.js", "Figures");

const BY = [["hour", "Day"], ["day", "30 days"]];

// `trends`: as the server told them; undefined: not yet.
export function Plots({ trends, by, onBy }) {
  const box = useRef(null);
  const inSight = useInSight(box);
  const [seen, see] = useState(false);
  useEffect(() => { if (inSight) see(true); }, [inSight]);
  // Nothing is drawn anew where the same was told again.
  const key = JSON.stringify(trends?.buckets);
  const buckets = useMemo(() => trends?.buckets ?? [], [key]);
  return html`<section class="part" aria-labelledby="over-time" ref=${box}>
    <div class="head"><h2 id="over-time">Over time</h2><div class="chips" role="group" aria-label="How far back">
      ${BY.map(([each, name]) => html`<button type="button" class="chip" aria-pressed=${each === by ? "true" : "false"}
        onClick=${() => onBy(each)}>${name}</button>`)}</div></div>
    ${seen && trends && html`<${Figures} buckets=${buckets} by=${trends.by} />`}
    ${trends && trends.tasks >= trends.most && html`<p class="muted small">Of the ${trends.most} tasks that changed
      last.</p>`}
  </section>`;
}
