// A view that is fetched when it is first looked at, so that the first view of the page comes sooner.
import { html, useEffect, useState } from "./html.js";
import { Loading, Trouble } from "./ui.js";

const NOT_FETCHED = { sentence: "This part of the page could not be fetched from the server." };

async function fetched(path) {
  const answer = await fetch(new URL(`../${path}`, import.meta.url));
  await answer.arrayBuffer();
  if (!answer.ok) throw new Error(path);
}

// The module, after it and all that it imports were fetched at once, as the head of the page names them: a slow line
// is waited for once. A browser remembers for the life of a page that a module could not be imported; none is tried
// before it is in the browser's cache.
async function module(path) {
  const named = document.head.querySelector(`meta[name="later"][content^="${path}"]`);
  await Promise.all(named.content.split(" ").map(fetched));
  return import(`../${path}`);
}

// `path`: the module below /console/; `name`: the view in it.
export function later(path, name) {
  let found = null;
  return function Later(props) {
    const [View, set] = useState(() => found);
    const [failed, fail] = useState(false);
    const fetching = () => module(path).then((all) => {
      found = all[name];
      set(() => found);
    }, () => fail(true));
    useEffect(() => {
      if (!View) fetching();
    }, []);
    const again = () => {
      fail(false);
      fetching();
    };
    if (failed) return html`<${Trouble} problem=${NOT_FETCHED} again=${again} />`;
    return View ? html`<${View} ...${props} />` : html`<${Loading} />`;
  };
}
