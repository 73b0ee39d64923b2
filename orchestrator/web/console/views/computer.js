// One computer: its screens live, who it is, what works on it, its backups; and letting a frozen one come back.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { id, post } from "../lib/api.js";
import { State, family, useAtWork } from "../lib/computers.js";
import { onHint } from "../lib/live.js";
import { useReading } from "../lib/reading.js";
import { link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { Text, inOrder, oneLine } from "../lib/text.js";
import { useTitle } from "../lib/title.js";
import { Ago, Details, Dialog, Facts, Icon, Loading, NotThere, Trouble, useDoing } from "../lib/ui.js";
import { Screen } from "../screen/screen.js";
import { Backups } from "./backups.js";
import { Keyboard, Line, Told, TypeHere, useTyping } from "./typing.js";

const TERMINAL = { of: "terminal", width: 0, height: 0 };

function Picker({ screens, of, onChoose }) {
  // A monitor that was taken away is still the one that is chosen.
  const all = screens.some((one) => one.of === of) ? [...screens] : [...screens, { of }];
  if (all.length < 2) return null;
  all.sort((a, b) => (b.of === "terminal") - (a.of === "terminal") || inOrder(a.of, b.of));
  return html`<div class="chips" role="group" aria-label="Which screen">${all.map((one) => html`
    <button type="button" class="chip" aria-pressed=${one.of === of ? "true" : "false"}
        onClick=${() => onChoose(one.of)}>${one.of === "terminal" ? "Terminal" : html`Monitor ${oneLine(one.of, 40)}`}
      </button>`)}</div>`;
}

function Watching({ one }) {
  const { computer, online, seen_at: seenAt, owner } = one;
  const [of, setOf] = useState("terminal");
  const [size, setSize] = useState("");
  const [asText, setAsText] = useState(false);
  const [typing, setTyping] = useState(false);
  const { value, again } = useReading(online ? `/v1/computers/${id(computer)}/screens` : null);
  const { typist, told, may: mayType, why } = useTyping(computer, owner);
  const screens = value?.screens.length ? value.screens : [TERMINAL];
  const on = typing && mayType && online;
  // After leaving, the focus is on the button that led here.
  const box = useRef(null), was = useRef(false);
  useEffect(() => {
    if (was.current && !on && document.activeElement === document.body) box.current.querySelector("button")?.focus();
    was.current = on;
  }, [on]);
  // Nobody goes on typing at what does not hear it.
  useEffect(() => { if (told?.state === "lost" || told?.state === "unknown") setTyping(false); }, [told]);
  // A monitor may be put beside a computer at any time: nobody says so.
  useEffect(() => {
    if (!online) return undefined;
    const timer = setInterval(() => document.hidden || again(), 10_000);
    return () => clearInterval(timer);
  }, [online]);
  return html`<section class="watching ${on ? "typing" : ""}" aria-label="Screens">
    <div class="head"><${Picker} screens=${screens} of=${of} onChoose=${setOf} />
      <div class="tools"><button type="button" class="quiet small" aria-pressed=${asText ? "true" : "false"}
          onClick=${() => setAsText(!asText)}>As text</button></div></div>
    <${Screen} key=${of} computer=${computer} of=${of} asText=${asText} seenAt=${seenAt} onSize=${setSize}>
      ${on && html`<${Keyboard} computer=${computer} typist=${typist} onLeave=${() => setTyping(false)} />`}
    <//>
    <div class="actions under" ref=${box}>
      <${TypeHere} typing=${on} may=${mayType} online=${online} onClick=${() => setTyping(!on)} />
      ${on
        ? html`<p class="typing-says">Your keys go to <b>${computer}</b>. <kbd>Esc</kbd> or
          ${" "}<kbd>Ctrl</kbd> <kbd>]</kbd> leaves.</p>`
        : html`<p class="muted small">
          ${why || (online ? size && `${size} characters` : "Nobody can type while it is away.")}</p>`}
      <${Told} told=${told} />
    </div>
    ${mayType && online && html`<details class="line-box"><summary>A line and special keys</summary>
      <${Line} computer=${computer} typist=${typist} /></details>`}
  </section>`;
}

function Side({ side, title }) {
  return html`<div class="card side-card"><h2>${title}</h2><${Facts} rows=${[
    ["Id in the game", side.computer_id], ["Label", side.label && html`<${Text} value=${side.label} line=${60} />`],
    ["Game", side.host && html`<${Text} value=${side.host} line=${80} />`],
    ["From", side.peer && html`<${Text} value=${side.peer} line=${60} />`],
    ["Said hello", html`<${Ago} at=${side.at} />`],
    ["Boot", html`<code><${Text} value=${side.boot} line=${24} /></code>`],
  ].filter(([, value]) => value !== "" && value !== undefined)} /></div>`;
}

function Frozen({ one, onDone }) {
  const [asking, setAsking] = useState(false);
  const { busy, problem, doing } = useDoing();
  const { frozen, computer } = one;
  const titles = frozen.sides.length > 1 ? ["Who was welcome last", "Who came then"] : ["Who came"];
  const release = () => doing(async () => {
    await post(`/v1/computers/${id(computer)}/release`);
    setAsking(false);
    onDone();
  });
  return html`<section class="frozen" aria-label="Why it is frozen">
    <div class="note bad"><p><b>This computer is frozen</b>
      ${frozen.since && html` since <${Ago} at=${frozen.since} />`}: <${Text} value=${frozen.message} /></p>
      ${!may("everything") && html`<p><${Text} value=${frozen.remedy} /></p>`}</div>
    ${frozen.sides.length > 0 && html`<div class="sides">
      ${frozen.sides.map((side, at) => html`<${Side} side=${side} title=${titles[at] ?? "Another"} />`)}</div>`}
    ${may("everything") ? html`<div class="actions"><button type="button" class="danger"
        onClick=${() => setAsking(true)}>Let it come back…</button></div>`
      : html`<p class="muted">An admin can let it come back.</p>`}
    ${asking && html`<${Dialog} title="Let ${computer} come back?" onClose=${() => setAsking(false)}>
      <p>Whichever of them dials next is ${computer} from then on. What was under way there is shown as unknown, and is
        not done again by itself.</p>
      <${Trouble} problem=${problem} />
      <footer><button type="button" class="danger solid" disabled=${busy} onClick=${release}>Let it come back</button>
        <button type="button" onClick=${() => setAsking(false)}>Not now</button></footer><//>`}
  </section>`;
}

function About({ one, task }) {
  const label = one.label ?? one.last?.label;
  return html`<${Facts} rows=${[
    label && ["Label", html`<${Text} value=${label} line=${60} />`],
    family(one) && ["Kind", family(one)],
    ["Paired by", one.owner ? html`<${Text} value=${one.owner} line=${64} />` : "nobody known"],
    one.seen_at && ["Here last", html`<${Ago} at=${one.seen_at} />`],
    task && ["At work", html`<a href=${link("tasks", [task.task_id])}>${oneLine(task.prompt, 80)}</a>`],
  ]} />
  <${Details}><${Facts} rows=${[
    ["Name", html`<code>${oneLine(one.computer, 64)}</code>`],
    (one.host || one.last?.host) && ["Game", html`<${Text} value=${one.host || one.last.host} line=${80} />`],
    one.computer_id !== undefined && ["Id in the game", one.computer_id],
    one.client && ["Client", html`<${Text} value=${one.client} line=${30} />`],
  ]} /><//>`;
}

export function Computer({ name }) {
  const { value, problem, again } = useReading(`/v1/computers/${id(name)}`);
  const tasks = useAtWork();
  useTitle(name);
  useEffect(() => onHint("computers", (hint) => hint.computer === name && again()), []);
  return html`<div class="page">
    <p class="back"><a href=${link("computers")}><${Icon} name="back" /> Computers</a></p>
    <div class="head"><h1>${oneLine(name, 64)}</h1>${value && html`<${State} state=${value.state} />`}
      <div class="tools">${may("submit") && value && html`<a class="button" href=${link("tasks", [], { new: "1" })}>
        <${Icon} name="plus" /> New task</a>`}</div></div>
    <${NotThere} problem=${problem?.undelivered && value ? null : problem} again=${again}
        list=${{ address: link("computers"), name: "All computers" }} />
    ${!value && !problem && html`<${Loading} rows=${4} />`}
    ${value?.frozen && html`<${Frozen} one=${value} onDone=${again} />`}
    ${value?.released && html`<div class="note warn"><p>It may come back and has not come yet: the next one that
      connects is this computer.</p></div>`}
    ${value && html`<${Watching} one=${value} /><${About} one=${value} task=${tasks.get(name)} />
      <${Backups} computer=${name} online=${value.online} />`}
  </div>`;
}
