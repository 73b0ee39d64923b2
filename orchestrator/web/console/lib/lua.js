// Lua in colours: highlight.js says what each part is, and the parts become elements with text in them.
import hljs from "../vendor/highlight/core.min.js";
import lua from "../vendor/highlight/lua.min.js";
import { html } from "./html.js";
import { Text } from "./text.js";

const MOST_CHARS = 200_000;

hljs.registerLanguage("lua", lua);

// Whether a file is likely Lua: on a computer a file without an ending is a program, too.
export const isLua = (path) => /\.lua$/i.test(path) || !/\.[^/]*$/.test(path);

// [[scope, text], …], in order; all of the text and nothing else.
function tokens(text) {
  if (text.length > MOST_CHARS) return [["", text]];
  const found = [];
  const walk = (node, scope) => {
    for (const child of node.children) {
      if (typeof child === "string") found.push([scope, child]);
      else walk(child, child.scope ?? scope);
    }
  };
  walk(hljs.highlight(text, { language: "lua", ignoreIllegals: true })._emitter.rootNode, "");
  // The text is shown, whatever a highlighter makes of it.
  return found.map(([, part]) => part).join("") === text ? found : [["", text]];
}

// A text's lines, each as what Preact draws.
export function linesOf(text) {
  const lines = [[]];
  for (const [scope, part] of tokens(text)) {
    part.split("\n").forEach((piece, i) => {
      if (i) lines.push([]);
      if (piece) lines.at(-1).push(scope ? html`<span class="hl-${scope.split(".")[0]}"><${Text} value=${piece} />
          </span>` : html`<${Text} value=${piece} />`);
    });
  }
  return lines;
}
