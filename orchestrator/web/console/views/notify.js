// The bell: whether this device notifies of what waits, while the page is open and also while it is closed.
import { html, useEffect, useState } from "../lib/html.js";
import { askToNotify, permission } from "../lib/notify.js";
import { lookAtPush, push, turnOffPush, turnOnPush } from "../lib/push.js";
import { useStore } from "../lib/store.js";
import { Dialog, Icon, Trouble, useDoing } from "../lib/ui.js";

const ASKED = {
  none: { said: "This browser has no notifications." },
  denied: { said: "This browser blocks the notifications of this page; its settings for this site allow them." },
  default: { said: "This device does not notify you.", act: askToNotify, name: "Notify me" },
};
const OPEN = "This device notifies you while this page is open.";
const GRANTED = {
  asking: { said: OPEN },
  off: { said: OPEN, act: turnOnPush, name: "Notify me also while it is closed" },
  on: {
    said: "This device notifies you, also while this page is closed.",
    act: turnOffPush, name: "Only while it is open",
  },
};

function Choice({ onClose }) {
  const asked = useStore(permission);
  const { state, why } = useStore(push);
  const looking = useDoing();
  const turning = useDoing();
  useEffect(() => { looking.doing(lookAtPush); }, []);
  const { said, act, name } = ASKED[asked] ?? GRANTED[state] ?? { said: `${OPEN} ${why}` };
  return html`<${Dialog} title="Notifications on this device" onClose=${onClose}>
    <p role="status">${said}</p>
    ${act && html`<div class="actions"><button type="button" disabled=${turning.busy}
        onClick=${() => turning.doing(act)}>${name}</button></div>`}
    <${Trouble} problem=${turning.problem ?? looking.problem} />
  <//>`;
}

export function Notify() {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class="quiet icon-only" title="Notifications" aria-label="Notifications"
      onClick=${() => setOpen(true)}><${Icon} name="bell" /></button>
    ${open && html`<${Choice} onClose=${() => setOpen(false)} />`}`;
}
