// A view that is fetched when it is first looked at, so that the first view of the page comes sooner.
import { html, useEffect, useState } from "./html.js";
import { Loading, Trouble } from "./ui.js";

const NOT_FETCHED = { sentence: "This part of the page could not be fetched from the server." };

// Asks at once for all that the module imports, as the head of the page names it: a slow line is waited for once.
function askFor(path) {
  const named = document.head.querySelector(`meta[name="later"][content^="${path} "]`);
  for (const one of named?.content.split(" ") ?? []) {
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.href = new URL(`../${one}`, import.meta.url).pathname;
    document.head.append(link);
  }
  named?.remove();
}

// `path`: the module below /console/; `name`: the view in it. A browser remembers that a module could not be fetched,
// so that another try has another address.
export function later(path, name) {
  let found = null, tries = 0;
  return function Later(props) {
    const [View, set] = useState(() => found);
    const [failed, fail] = useState(false);
    const fetching = () => import(`../${path}${tries ? `?${tries}` : ""}`).then((module) => {
      found = module[name];
      set(() => found);
    }, () => {
      tries += 1;
      fail(true);
    });
    useEffect(() => {
      if (View) return;
      askFor(path);
      fetching();
    }, []);
    const again = () => {
      fail(false);
      fetching();
    };
    if (failed) return html`<${Trouble} problem=${NOT_FETCHED} again=${again} />`;
    return View ? html`<${View} ...${props} />` : html`<${Loading} />`;
  };
}
