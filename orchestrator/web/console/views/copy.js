// A button that copies a text, and says so.
import { html, useEffect, useState } from "../lib/html.js";

const SAID_MS = 3000;

export function Copy({ text, name = "Copy" }) {
  const [said, say] = useState("");
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => say(""), SAID_MS);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      // By plain http from another machine a browser gives no clipboard.
      say("Select it and copy it: this browser does not let the page.");
    }
  };
  return html`<span class="copy"><button type="button" onClick=${copy}>${name}</button>
    <span role="status">${said}</span></span>`;
}
