// Unsent input: kept in this tab over views, reloads and signing in again, for the person who typed it.
import { useState } from "./html.js";
import { session } from "./session.js";

const nameOf = (about) => `typed ${session.value.name} ${about} `;

export function kept(about, field, initial) {
  try {
    const text = sessionStorage.getItem(nameOf(about) + field);
    return text === null ? initial : JSON.parse(text);
  } catch {
    return initial;
  }
}

// `value` undefined: nothing is kept any more.
export function keep(about, field, value) {
  try {
    if (value === undefined) sessionStorage.removeItem(nameOf(about) + field);
    else sessionStorage.setItem(nameOf(about) + field, JSON.stringify(value));
  } catch {
    // A browser may keep nothing.
  }
}

// As `useState`; `about` names the thing that it answers, such as a request's id, and `field` the part of it.
export function useDraft(about, field, initial) {
  const [value, set] = useState(() => kept(about, field, initial));
  const change = (next) => {
    set(next);
    keep(about, field, next === initial ? undefined : next);
  };
  return [value, change];
}

// It was sent, or somebody dropped it.
export function forget(about) {
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith(nameOf(about))) sessionStorage.removeItem(key);
  } catch {
    // As above.
  }
}
