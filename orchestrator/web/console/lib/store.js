// A value that views look at: a view that uses it is drawn anew when it changes.
import { useEffect, useState } from "./html.js";

export class Store {
  #value;
  #heard = new Set();

  constructor(value) {
    this.#value = value;
  }

  get value() {
    return this.#value;
  }

  set(value) {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const tell of [...this.#heard]) tell(value);
  }

  // Some fields of an object.
  patch(fields) {
    this.set({ ...this.#value, ...fields });
  }

  subscribe(tell) {
    this.#heard.add(tell);
    return () => this.#heard.delete(tell);
  }
}

export function useStore(store) {
  const [value, set] = useState(store.value);
  useEffect(() => {
    // It may have changed between the drawing and now.
    set(store.value);
    return store.subscribe(set);
  }, [store]);
  return value;
}
