// Pairing a computer: the line to type there, until when it works, and that it came.
import { html, useEffect, useState } from "../lib/html.js";
import { get, now, post } from "../lib/api.js";
import { keep, kept } from "../lib/drafts.js";
import { onHint } from "../lib/live.js";
import { link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { Text, oneLine } from "../lib/text.js";
import { Copy } from "./copy.js";
import { Icon, Left, Trouble, useDoing } from "../lib/ui.js";

// By how much this browser's idea of the server's time may be wrong.
const CLOCK_MS = 2000;

const tokens = async () => new Map((await get("/v1/tokens")).tokens
  .filter((one) => one.kind === "computer" && !one.revoked)
  .map((one) => [`${one.name} ${one.created_at}`, one.name]));

// The computer that was paired since `before` was read; null: none yet.
async function came(before, wanted) {
  const now = await tokens();
  const fresh = [...now].filter(([key]) => !before.has(key)).map(([, name]) => name);
  const paired = wanted ? fresh.find((name) => name === wanted) : fresh[0];
  if (!paired) return null;
  const { computers } = await get("/v1/computers");
  return computers.find((one) => one.computer === paired) ?? null;
}

function Hints({ line, url }) {
  const { hostname, port, protocol } = new URL(url);
  const loopback = /^(127\.|localhost$|\[?::1)/.test(hostname);
  return html`<details class="card hints"><summary>It does not work?</summary><div class="hints-body">
    <ul>
      <li><b>Domain not permitted</b>: the mod refuses private addresses until a rule allows them.
        Into <code>computercraft-server.toml</code>${" "}
        (the folder <code>serverconfig</code> of the world, or <code>config</code>), before the rule
        for <code>"$private"</code>, then restart the world:
        <pre class="text">${`[[http.rules]]\n    host = "${hostname}"\n    port = ${port || (protocol === "https:" ? 443
          : 80)}\n    action = "allow"`}</pre></li>
      <li>The <b>Minecraft server</b> dials, not your own machine. ${loopback
        ? html`<code>${hostname}</code> is the machine on which it runs: where that is another one, start this server
          with <code>--host</code> and <code>--public-url</code>.`
        : html`It has to reach <code>${hostname}</code>.`}</li>
      <li><b>No such program wget</b>: HTTP is turned off in the mod's settings (<code>http.enabled</code>).</li>
      <li><code>cc-orchestrator doctor</code> says what the server saw of the
        attempt; <code>docs/troubleshooting.md</code> has a section for every message.</li>
    </ul></div></details>`;
}

// The attempt that the server saw since the line was made: it was turned away, or the installer was fetched.
function Seen({ seen, since }) {
  const refused = seen?.refused.find((one) => Date.parse(one.at) >= since && one.path === "/v1/pair");
  const fetched = seen?.installers.find((one) => Date.parse(one.at) >= since && !one.paired);
  if (refused) return html`<div class="note bad" role="status">
    <p>A computer at ${oneLine(refused.peer, 60)} was turned away: <${Text} value=${refused.message} /> <${Text}
        value=${refused.remedy} /></p></div>`;
  return fetched ? html`<div class="note" role="status">
    <p>A computer at ${oneLine(fetched.peer, 60)} fetched the installer.</p></div>` : null;
}

function Line({ pairing, onAgain }) {
  const [computer, setComputer] = useState(null);
  const [seen, setSeen] = useState(null);
  useEffect(() => {
    let over = false;
    const look = async () => {
      try {
        const [found, doctor] = [await came(pairing.before, pairing.computer), await get("/v1/doctor")];
        if (over) return;
        if (found) setComputer(found);
        setSeen(doctor);
      } catch {
        // The next hint, or the next look, tells.
      }
    };
    const unhear = onHint("computers", look);
    const timer = setInterval(look, 2000);
    return () => {
      over = true;
      unhear();
      clearInterval(timer);
    };
  }, [pairing]);
  const name = computer && oneLine(computer.computer, 64);
  return html`
    <section class="card pairing" aria-label="The line to type">
      <p>On the computer in the game, type:</p>
      <div class="copyable"><code>${pairing.line}</code><${Copy} text=${pairing.line} name="Copy the line" /></div>
      ${pairing.warning && html`<div class="note bad"><p><${Text} value=${pairing.warning} /></p></div>`}
      <p class="muted">It works once, and <${Left} until=${pairing.expires_at} />. <button type="button"
          class="quiet small" onClick=${onAgain}>Make another</button></p>
      <div class="arrival ${computer ? "good" : ""}" role="status">
        ${!computer && html`<span class="dot" aria-hidden="true"></span> Waiting for the computer…`}
        ${computer && !computer.online && html`<span class="dot" aria-hidden="true"></span> <b>${name}</b> is paired. It
          connects as soon as its client has started…`}
        ${computer?.online && html`<${Icon} name="approvals" /> <b>${name}</b> is connected!`}
      </div>
      ${computer?.online && html`<div class="actions">
        <a class="button primary" href=${link("computers", [computer.computer])}>Look at it</a>
        <a class="button" href=${link("tasks", [], { new: "1" })}>Give it a task</a></div>`}
    </section>
    ${!computer && html`<${Seen} seen=${seen} since=${pairing.since} />
      <${Hints} line=${pairing.line} url=${pairing.url} />`}`;
}

const DRAFT = ["pairing", "line"];

// The line stands there again after a reload, as long as it works.
function made() {
  const told = kept(...DRAFT, null);
  return told && Date.parse(told.expires_at) > now() ? { ...told, before: new Map(told.before) } : null;
}

export function Pairing() {
  const [pairing, setPairing] = useState(made);
  const [name, setName] = useState("");
  const [label, setLabel] = useState("");
  const { busy, problem, doing } = useDoing();
  const make = (event) => {
    event?.preventDefault();
    doing(async () => {
      const before = await tokens(), since = now() - CLOCK_MS;
      const told = await post("/v1/pairings", { ...(name.trim() && { computer: name.trim() }),
        ...(label && { label }) });
      keep(...DRAFT, { ...told, before: [...before], since });
      setPairing({ ...told, before, since });
    });
  };
  const another = () => {
    keep(...DRAFT);
    setPairing(null);
  };
  return html`<div class="page narrow">
    <p class="back"><a href=${link("computers")}><${Icon} name="back" /> Computers</a></p>
    <h1>Pair a computer</h1>
    ${!may("pair") && html`<div class="note"><p>Pairing needs the role admin: ask an admin for a line to type on your
      computer.</p></div>`}
    ${may("pair") && !pairing && html`<form class="card" onSubmit=${make} aria-label="Pair a computer">
      <label for="name">Its name here <span class="muted">(empty: its id in the game)</span></label>
      <input id="name" maxlength="64" spellcheck=${false} autocapitalize="off" value=${name}
          onInput=${(event) => setName(event.target.value)} />
      <label for="label">Its label, if it has none <span class="muted">(may be empty)</span></label>
      <input id="label" maxlength="32" value=${label} onInput=${(event) => setLabel(event.target.value)} />
      <${Trouble} problem=${problem} />
      <footer><button class="primary" disabled=${busy}>Make the line</button></footer></form>`}
    ${pairing && html`<${Trouble} problem=${problem} />
      <${Line} key=${pairing.code} pairing=${pairing} onAgain=${make} />
      <p><button type="button" class="quiet small" onClick=${another}>Pair another computer</button></p>`}
  </div>`;
}
