// Typing at a computer from here: a mode that is plain to see and easy to leave, and for phones a line and buttons for
// keys.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Text, oneLine } from "../lib/text.js";
import { Icon } from "../lib/ui.js";
import { Typist, isTyped, keyOf } from "../screen/keys.js";

const BUTTONS = [
  ["enter", "Enter"], ["tab", "Tab"], ["backspace", "⌫", "Backspace"], ["up", "↑", "Up"], ["down", "↓", "Down"],
  ["left", "←", "Left"],
  ["right", "→", "Right"], ["home", "Home"], ["end", "End"], ["terminate", "Ctrl+T", "Terminate the program: Ctrl+T"],
];
const SAID = {
  typing: () => "Sending…",
  delivered: () => "Delivered",
  lost: (message) => `Not delivered: ${message}`,
  cut: (message) => message,
  unknown: (message) => `Nobody knows whether it was delivered. ${message}`,
};

// {typist, told, may, why}: what was typed last and what became of it; `why` somebody may not type here.
export function useTyping(computer, owner) {
  const { name, roles } = useStore(session);
  const [told, tell] = useState(null);
  const [refused, refuse] = useState("");
  const typist = useRef(null);
  useEffect(() => {
    typist.current = new Typist(computer, (what) => {
      if (what.refused) refuse(what.message);
      tell(what);
    });
    return () => typist.current.end();
  }, [computer]);
  const may = roles.includes("admin") || (owner !== null && owner === name);
  const who = owner ? `Only ${oneLine(owner, 64)}, who paired it, or an admin may type here.`
    : "Only an admin may type here.";
  return { typist, told, may: may && !refused, why: refused || (may ? "" : who) };
}

export const Told = ({ told }) =>
  html`<p class="told ${told?.state ?? ""}" role="status">
  ${told && html`<${Text} value=${SAID[told.state](told.message)} />`}</p>`;

// Lies over the screen while one types: typed text goes to the computer, and nothing stays in it.
export function Keyboard({ computer, typist, onLeave }) {
  const field = useRef(null);
  const composing = useRef(false);
  useLayoutEffect(() => { field.current.focus({ preventScroll: true }); }, []);
  const pressed = (event) => {
    if (event.key === "Escape" || (event.ctrlKey && (event.key === "]" || event.code === "BracketRight"))) {
      event.preventDefault();
      return onLeave();
    }
    // Backwards is the way out that people without a mouse know.
    if (event.isComposing || (event.key === "Tab" && event.shiftKey)) return undefined;
    const key = keyOf(event);
    if (key === null) return undefined;
    event.preventDefault();
    typist.current.press(key);
    return undefined;
  };
  const typed = () => {
    if (composing.current) return;
    const text = field.current.value;
    field.current.value = "";
    const chars = Array.from(text);
    if (chars.length === 1 && isTyped(text)) typist.current.press(text);
    else if (text === "\n") typist.current.press("enter");
    else if (text) typist.current.paste(text);
  };
  return html`<textarea class="keyboard" ref=${field} aria-label="Type at ${computer}; Escape leaves" rows="1"
      autocapitalize="off" autocomplete="off" autocorrect="off" spellcheck=${false}
    onKeyDown=${pressed} onInput=${typed} onBlur=${onLeave}
    onCompositionStart=${() => { composing.current = true; }}
        onCompositionEnd=${() => { composing.current = false; typed(); }}></textarea>`;
}

// For devices without a keyboard: a line that is sent with Enter, and buttons for keys.
export function Line({ computer, typist }) {
  const [text, setText] = useState("");
  const send = (event) => {
    event.preventDefault();
    if (text.length === 1 && isTyped(text)) typist.current.press(text);
    else if (text) typist.current.paste(text);
    typist.current.press("enter");
    setText("");
  };
  return html`<div class="line-keys">
    <form onSubmit=${send}><label class="sr" for="line">A line to type at ${computer}</label>
      <input id="line" class="mono" autocapitalize="off" autocomplete="off" autocorrect="off" spellcheck=${false}
          enterkeyhint="send" placeholder="A line to type" value=${text}
          onInput=${(event) => setText(event.target.value)} />
      <button>Send</button></form>
    <div class="actions" role="group" aria-label="Keys">${BUTTONS.map(([key, sign, name]) => html`
      <button type="button" class="small" aria-label=${name} onClick=${() => typist.current.press(key)}>
        ${sign}</button>`)}</div>
  </div>`;
}

export const TypeHere = ({ typing, may, online, onClick }) =>
  html`<button type="button" class=${typing ? "" : "primary"} disabled=${!may || !online}
  onMouseDown=${(event) => event.preventDefault()} onClick=${onClick}>
    <${Icon} name="keys" /> ${typing ? "Stop typing" : "Type here"}</button>`;
