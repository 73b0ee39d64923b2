// What is looked at within a view, for the title of the page: tabs and the way back distinguish them by it.
import { useEffect } from "./html.js";
import { Store } from "./store.js";
import { oneLine } from "./text.js";

const CHARS = 60;

export const title = new Store("");

export function useTitle(...words) {
  const said = words.filter(Boolean).map((word) => oneLine(word, CHARS)).join(" · ");
  useEffect(() => {
    title.set(said);
    return () => title.set("");
  }, [said]);
}
