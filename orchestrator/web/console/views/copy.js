// A button that copies a text, and says so.
import { html, useEffect, useRef, useState } from "../lib/html.js";

const SAID_MS = 3000;

// Where a browser gives no clipboard, as by plain http from another machine: the text is selected, and copied the old
// way; whether that worked.
function copySelected(shown) {
  if (!shown) return false;
  getSelection().selectAllChildren(shown);
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  }
}

// Stands beside a <code> with the text.
export function Copy({ text, name = "Copy" }) {
  const [said, say] = useState("");
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => say(""), SAID_MS);
    return () => clearTimeout(timer);
  }, [said]);
  const box = useRef(null);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      const done = copySelected(box.current.parentElement.querySelector("code"));
      say(done ? "Copied" : "It is selected: copy it, since this browser does not let the page.");
    }
  };
  return html`<span class="copy" ref=${box}><button type="button" onClick=${copy}>${name}</button>
    <span role="status">${said}</span></span>`;
}
