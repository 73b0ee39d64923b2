// Decisions that failed and that nobody has seen yet, by request (or question) id: the frame tells of them everywhere.
import { session } from "./session.js";
import { Store } from "./store.js";

export const unseen = new Store(new Map());

const keyOf = ({ request, question }) => request?.request_id ?? question.question_id;

export function saw(outcome) {
  if (!unseen.value.has(keyOf(outcome))) return;
  const left = new Map(unseen.value);
  left.delete(keyOf(outcome));
  unseen.set(left);
}

let owner = "";
session.subscribe(({ name }) => {
  if (!name || name === owner) return;
  // A decision of another person in this browser is theirs.
  owner = name;
  unseen.set(new Map());
});
