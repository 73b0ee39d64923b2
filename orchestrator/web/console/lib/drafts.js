// What was typed and not sent yet: kept in this tab over views, reloads and signing in again, for whoever typed it.
import { useState } from "./html.js";
import { session } from "./session.js";

const nameOf = (about) => `typed ${session.value.name} ${about} `;

function kept(key, initial) {
  try {
    const text = sessionStorage.getItem(key);
    return text === null ? initial : JSON.parse(text);
  } catch {
    return initial;
  }
}

function keep(key, value) {
  try {
    if (value === undefined) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify(value));
  } catch {
    // A browser may keep nothing.
  }
}

// As `useState`; `about` is what it is an answer to, such as a request's id, and `field` which part of it.
export function useDraft(about, field, initial) {
  const key = nameOf(about) + field;
  const [value, set] = useState(() => kept(key, initial));
  const change = (next) => {
    set(next);
    keep(key, next === initial ? undefined : next);
  };
  return [value, change];
}

// It was sent, or somebody dropped it.
export function forget(about) {
  try {
    Object.keys(sessionStorage).filter((key) => key.startsWith(nameOf(about))).forEach((key) => keep(key));
  } catch {
    // As above.
  }
}
