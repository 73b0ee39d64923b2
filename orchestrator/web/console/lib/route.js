// Where one is: #/tasks/t-1?status=Paused. The address is kept over reloads, restarts and signing in.
import { useEffect } from "./html.js";
import { Store } from "./store.js";

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { view: parts[0] ?? "home", parts: parts.slice(1), query: new URLSearchParams(query) };
}

export const route = new Store(read());
addEventListener("hashchange", () => route.set(read()));

// How far a list was scrolled is kept with its entry of the history, and had again on the way back once it is `there`.
export const keepPlace = () => history.replaceState({ ...history.state, scrolled: scrollY }, "");

export function useKeptPlace(there) {
  useEffect(() => {
    if (there && history.state?.scrolled) scrollTo(0, history.state.scrolled);
  }, [there]);
}

// The address of a view; parts are encoded, and empty parts of the query are left out.
export function link(view, parts = [], query = {}) {
  const said = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  return `#/${[view, ...parts.map(encodeURIComponent)].join("/")}${said.size ? `?${said}` : ""}`;
}

export function go(address, { replace = false } = {}) {
  if (replace) {
    history.replaceState(null, "", address);
    route.set(read());
  } else {
    location.hash = address;
  }
}
