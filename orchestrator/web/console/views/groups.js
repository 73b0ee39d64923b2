// Groups of people and computers. Admins fill them; others see their own.
import { ask, id, post } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { may } from "../lib/session.js";
import { useReading } from "../lib/reading.js";
import { oneLine } from "../lib/text.js";
import { Loading, Trouble, useDoing } from "../lib/ui.js";

const named = (text) => text.split(/[\s,]+/).filter(Boolean);

// The people or the computers of a group, each with a button that takes it out.
function Members({ group, names, kind, change }) {
  if (!names.length) return html`<span class="muted">none</span>`;
  return names.map((name) => html`<span class="badge">${oneLine(name, 40)}
    ${change && html` <button type="button" class="small" aria-label="Take ${oneLine(name, 40)} out of ${group}"
      onClick=${() => change(group, { [`remove_${kind}`]: [name] })}>✕</button>`}</span> `);
}

function Add({ change, busy }) {
  const [group, setGroup] = useState("");
  const [people, setPeople] = useState("");
  const [computers, setComputers] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const done = await change(group.trim(), { add_people: named(people), add_computers: named(computers) });
    if (done) [setPeople, setComputers].forEach((clear) => clear(""));
  };
  const field = (name, label, value, set) => html`<label for=${name}>${label}</label>
    <input id=${name} autocomplete="off" autocapitalize="off" spellcheck=${false} value=${value}
      onInput=${(event) => set(event.target.value)} />`;
  return html`<form class="card" aria-label="Put into a group" onSubmit=${submit}>
    ${field("group", "Group (the first people or computers make it)", group, setGroup)}
    ${field("group-people", "People, with blanks between them", people, setPeople)}
    ${field("group-computers", "Computers that all of them may use", computers, setComputers)}
    <p><button disabled=${busy || !group.trim() || !(people.trim() || computers.trim())}>Put them in</button></p>
  </form>`;
}

export function Groups() {
  const { value, problem, again } = useReading("/v1/groups");
  const { busy, problem: refused, doing } = useDoing();
  const path = (group) => `/v1/groups/${id(group)}`;
  const change = async (group, body) => {
    let done = false;
    await doing(async () => {
      await post(path(group), body);
      done = true;
      again();
    });
    return done;
  };
  const remove = (group) => doing(async () => {
    await ask("DELETE", path(group));
    again();
  });
  const admin = may("everything");
  if (!admin && !value?.groups.length) return null;
  return html`<section class="part" aria-label="Groups"><div class="head"><h2>Groups</h2></div>
    <p class="muted">The rights of a role reach the people of one's groups. Who is in no group is in one with all others
      who are in none.</p>
    <${Trouble} problem=${refused ?? (problem?.undelivered && value ? null : problem)} again=${again} />
    ${!value && !problem && html`<${Loading} rows=${2} />`}
    ${value && html`<ul class="rows plain">${value.groups.map((one) => html`<li class="holder" key=${one.name}>
      <div><b>${oneLine(one.name, 64)}</b>
        <span class="row-meta">People: <${Members} group=${one.name} names=${one.people} kind="people"
          change=${admin && change} /></span>
        <span class="row-meta">Computers: <${Members} group=${one.name} names=${one.computers} kind="computers"
          change=${admin && change} /></span></div>
      ${admin && html`<button type="button" class="small danger" disabled=${busy}
        aria-label="Remove the group ${oneLine(one.name, 64)}" onClick=${() => remove(one.name)}>Remove</button>`}
    </li>`)}
    </ul>`}
    ${admin && html`<${Add} change=${change} busy=${busy} />`}</section>`;
}
