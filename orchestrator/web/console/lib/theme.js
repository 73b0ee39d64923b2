// Light or dark: as the system has it, or as somebody chose in this browser.
import { Store } from "./store.js";

const ORDER = ["system", "light", "dark"];

function remembered() {
  try {
    return ORDER.find((one) => one === localStorage.getItem("theme")) ?? "system";
  } catch {
    return "system";
  }
}

export const theme = new Store(remembered());

function wear(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

export function nextTheme() {
  const next = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length];
  theme.set(next);
  wear(next);
  try {
    localStorage.setItem("theme", next);
  } catch {
    // A browser may keep nothing; then it is for this visit.
  }
}

wear(theme.value);
