// The console: signing in, the frame with its navigation, and which view stands where.
import { html, render, useEffect, useRef, useState } from "./lib/html.js";
import { calledOf } from "./lib/called.js";
import { live, onOpened, start, stop } from "./lib/live.js";
import { later } from "./lib/later.js";
import { useReading } from "./lib/reading.js";
import { link, route } from "./lib/route.js";
import { look, session, signOut } from "./lib/session.js";
import { useStore } from "./lib/store.js";
import { nextTheme, theme } from "./lib/theme.js";
import { title } from "./lib/title.js";
import * as transfers from "./lib/transfers.js";
import { unseen } from "./lib/unseen.js";
import { watchOpened } from "./lib/notify.js";
import { lookAtOwnPush, turnOffPush } from "./lib/push.js";
import { Icon, LOGO, Loading, Safe, plural, useDoing, useSecond } from "./lib/ui.js";
import { Text } from "./lib/text.js";
import { Home } from "./views/home.js";
import { SignIn } from "./views/signin.js";
import { GoingOn } from "./views/transfers.js";

const Approvals = later("views/approvals.js", "Approvals");
const Audit = later("views/audit.js", "Audit");
const Class = later("views/class.js", "Class");
const Computer = later("views/computer.js", "Computer");
const Computers = later("views/computers.js", "Computers");
const Pairing = later("views/pairing.js", "Pairing");
const Decisions = later("views/decisions.js", "Decisions");
const People = later("views/people.js", "People");
const Policy = later("views/policy.js", "Policy");
const Task = later("views/task.js", "Task");
const Tasks = later("views/tasks.js", "Tasks");

// Each view by its name in the address; `title` is its place in the navigation, or it stands `under` another.
const VIEWS = {
  home: { title: "Home", draw: () => html`<${Home} />` },
  tasks: { title: "Tasks", draw: (at) => (at.parts[0]
    ? html`<${Task} key=${at.parts[0]} taskId=${at.parts[0]} />`
    : html`<${Tasks} query=${at.query} />`) },
  approvals: { title: "Approvals", draw: (at) => html`<${Approvals} chosen=${at.parts[0] ?? ""} />` },
  computers: { title: "Computers", draw: (at) => (at.parts[0]
    ? html`<${Computer} key=${at.parts[0]} name=${at.parts[0]} />`
    : html`<${Computers} query=${at.query} />`) },
  policy: { title: "Policy", draw: (at) => html`<${Policy} part=${at.parts[0] ?? ""} />` },
  audit: { title: "Audit", draw: (at) => (at.parts[0] === "decisions" ? html`<${Decisions} />`
    : html`<${Audit} query=${at.query} />`) },
  people: { title: "People", draw: () => html`<${People} />` },
  class: { title: "Class", under: "people", draw: (at) => html`
    <${Class} key=${at.parts[0]} group=${at.parts[0] ?? ""} />` },
  pairing: { title: "Pairing", under: "computers", draw: () => html`<${Pairing} />` },
};

const waitingCount = (state) => state.requests.length + state.questions.length;

function Navigation({ view }) {
  const waiting = waitingCount(useStore(live));
  return html`<nav aria-label="Views">${Object.entries(VIEWS).filter(([, { under }]) => !under)
    .map(([name, { title }]) => html`
    <a href=${link(name)} aria-current=${name === (VIEWS[view].under ?? view) ? "page" : null}>
      <${Icon} name=${name} /><span>${title}</span>
      ${name === "approvals" && waiting > 0 && html`<b class="count">${waiting}<span class="sr"> waiting</span></b>`}
    </a>`)}</nav>`;
}

const STATES = { connecting: "Connecting", live: "Live", away: "Offline" };

const Connection = ({ state }) => html`<span class="connection ${state}"><i aria-hidden="true"></i>${STATES[state]}
    </span>`;

function Banner() {
  const { state, since, version } = useStore(live);
  const mine = useStore(session).version;
  useSecond();
  if (state === "away") {
    return html`<div class="banner"><span
        role="status">The server is away. This page comes back by itself; until then it shows what it
      knew.</span> <small>${Math.round((Date.now() - since) / 1000)} s</small></div>`;
  }
  if (version && mine && version !== mine) {
    return html`<div class="banner">The server has a new version.${" "}
      <button type="button" class="small" onClick=${() => location.reload()}>Load its page</button></div>`;
  }
  return null;
}

const DEMO_SEEN = "demo banner closed";

// Only the demo's script answers: what changes that. Closed, it stays closed in this tab.
function DemoBanner() {
  const { value } = useReading("/v1/models");
  const [closed, close] = useState(sessionStorage.getItem(DEMO_SEEN) !== null);
  if (closed || !value?.banner) return null;
  return html`<div class="note warn demo" role="status">
    <p>${value.banner}</p>
    ${value.change.map((line) => html`<p key=${line}><code>${line}</code></p>`)}
    <button type="button" class="small" onClick=${() => { sessionStorage.setItem(DEMO_SEEN, "1"); close(true); }}>
      Close</button></div>`;
}

// Decisions that failed after somebody had gone elsewhere.
function Unseen() {
  const all = [...useStore(unseen)].map(([key, { request, question, state }]) => html`<p key=${key}>
    ${state === "unsent" ? "Not delivered" : "Not carried out"}: what you said to
    ${" "}<a href=${link("approvals", [key])}>${request ? calledOf(request) : "a question"}</a>.</p>`);
  return all.length > 0 && html`<div class="note warn away" role="alert">${all}</div>`;
}

// A note about new waiting requests, for a person who does not see the list.
function Came() {
  const [said, say] = useState("");
  useEffect(() => onOpened((one) => {
    const { requests, questions } = live.value;
    const what = one.request_id ? `A request waits: ${calledOf(one)}, ${one.risk} risk.` : "A question waits.";
    say(`${what} ${plural(requests.length + questions.length, "decision")} in all.`);
  }), []);
  return html`<p class="sr" role="status">${said}</p>`;
}

function Person() {
  const { name, roles } = useStore(session);
  const { busy, problem, doing } = useDoing();
  const looks = useStore(theme);
  return html`<div class="person">
    <span class="who"><b><${Text} value=${name} line=${40} /></b><small><${Text} value=${roles.join(", ")} line=${80} />
        </small></span>
    <button type="button" class="quiet icon-only" title="Look: ${looks}" aria-label="Look: ${looks}. Change"
        onClick=${nextTheme}><${Icon} name="sun" /></button>
    <button type="button" class="quiet icon-only" title="Sign out" aria-label="Sign out" disabled=${busy}
        onClick=${() => doing(leave)}><${Icon} name="leave" /></button>
    ${problem && html`<small role="alert">${problem.sentence}</small>`}
  </div>`;
}

// No notification comes here afterwards, also where the server did not answer to that.
async function leave() {
  await turnOffPush().catch(() => {});
  await signOut();
}

// After a link that is gone then, the focus is at the beginning of the new view, not before the frame.
function useArrival(place) {
  const before = useRef(place);
  useEffect(() => {
    if (before.current !== place && document.activeElement === document.body) {
      document.getElementById("main").focus({ preventScroll: true });
    }
    before.current = place;
  }, [place]);
}

function Frame() {
  const at = useStore(route);
  const state = useStore(live);
  const view = Object.hasOwn(VIEWS, at.view) ? at.view : "tasks";
  const waiting = waitingCount(state);
  const looked = useStore(title);
  const place = [view, ...at.parts].join("/");
  useEffect(() => {
    const words = [looked, VIEWS[view].title, "cc-orchestrator"].filter(Boolean).join(" · ");
    document.title = `${waiting ? `(${waiting}) ` : ""}${words}`;
  }, [waiting, view, looked]);
  useArrival(place);
  useEffect(() => watchOpened(), []);
  useEffect(() => { lookAtOwnPush().catch(() => {}); }, []);
  return html`
    <a class="skip" href="#main"
        onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <header class="top">
      <a class="brand" href=${link("home")}><img src=${LOGO} alt="" width="24"
          height="24" />cc-orchestrator</a>
      <${Connection} state=${state.state} />
      <${GoingOn} />
      <${Person} />
    </header>
    <${Navigation} view=${view} />
    <main id="main" tabindex="-1">
      <${Banner} />
      <${DemoBanner} />
      <${Unseen} />
      <${Came} />
      ${view !== at.view && html`<p class="note" role="status">There is no such view: these are the tasks.</p>`}
      <${Safe} key=${view} place=${place} raw=${{ view, parts: at.parts }}>${VIEWS[view].draw(at)}<//>
    </main>`;
}

function App() {
  const { where } = useStore(session);
  const [looked, setLooked] = useState(0);
  useEffect(() => {
    for (const each of [{ start, stop }, transfers]) (where === "in" ? each.start : each.stop)();
    if (where !== "asking" && where !== "away") return undefined;
    const timer = setTimeout(() => look().finally(() => setLooked(looked + 1)), looked ? 1500 : 0);
    return () => clearTimeout(timer);
  }, [where, looked]);
  if (where === "in") return html`<${Frame} />`;
  if (where === "out") return html`<${SignIn} />`;
  return html`<main class="alone" id="main">${where === "away"
    ? html`<p role="status">The server does not answer. This page goes on trying.</p>`
    : html`<${Loading} rows=${2} />`}</main>`;
}

render(html`<${App} />`, document.getElementById("app"));
