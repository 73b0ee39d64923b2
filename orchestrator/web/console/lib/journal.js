// A task's journal as steps that people read: what the model said, each call with what became of it, and notes between.
//
// Theory. Items are the truth and never taken back. The text that is being written now (a hint) is in its place
// until the item comes, and is thrown away then.
const OUTPUT_CHARS = 60_000;

// `replies`: how many came. `asking`: the step whose reply is being written, or 0. `early`: hints of a step not begun
// here.
export const nothing = () => ({
  version: 0, steps: [], ended: null, submitted: null, replies: 0, asking: 0, early: null,
});

const last = (journal) => journal.steps.at(-1);

// The journal with its last step changed; a new one where there is none.
function onLast(journal, change) {
  const steps = journal.steps.length ? [...journal.steps] : [step()];
  steps[steps.length - 1] = change(steps.at(-1));
  return { ...journal, steps };
}

const step = (fields = {}) => ({
  asked: false, writing: "", said: "", explanation: "", byModel: true, calls: [], notes: [], ...fields,
});

function onCall(journal, callId, change) {
  const at = journal.steps.findLastIndex((one) => one.calls.some((call) => call.call_id === callId));
  if (at < 0) return journal;
  const calls = journal.steps[at].calls.map((call) => (call.call_id === callId ? { ...call, ...change(call) } : call));
  return { ...journal, steps: journal.steps.with(at, { ...journal.steps[at], calls }) };
}

const numbered = (options) => options.map((one, i) => `${i + 1}. ${one}`);

const noted = (journal, note) => onLast(journal, (one) => ({ ...one, notes: [...one.notes, note] }));

// A hint: {text} of the reply, or the output of a running call.
export function hinted(journal, kind, data) {
  if (kind === "output") {
    return onCall(journal, data.call_id, (call) => {
      const before = data.offset ? call.output ?? "" : "";
      const gap = data.offset > (call.heard ?? 0) ? "\n[…]\n" : "";
      return { output: `${before}${gap}${data.text}`.slice(-OUTPUT_CHARS), heard: data.offset + data.size };
    });
  }
  if (kind === "model_text") return journal;
  const more = (one) => (kind === "explanation"
    ? { ...one, writing: one.writing + data.text }
    : { ...one, said: one.said + data.text });
  if (data.step === journal.asking) return onLast(journal, more);
  // It has overtaken the item that begins its step.
  const early = journal.early?.step === data.step ? journal.early : { step: data.step, writing: "", said: "" };
  return { ...journal, early: more(early) };
}

// An item of the journal.
export function taken(journal, item) {
  if (item.version <= journal.version) return journal;
  const read = FACTS[item.fact.kind];
  const next = read ? read(journal, item.fact, item) : journal;
  return { ...next, version: item.version };
}

const by = (item) => (item.actor?.kind === "person" || item.actor?.kind === "agent" ? item.actor.id : "");

const asked = (journal, fact) => {
  const fresh = !journal.steps.length || last(journal).calls.length || last(journal).explanation;
  const opened = fresh ? { ...journal, steps: [...journal.steps, step()] } : journal;
  const asking = journal.replies + 1;
  const begun = fact.attempt === 1 && journal.early?.step === asking;
  const { writing, said } = begun ? journal.early : { writing: "", said: "" };
  const next = onLast(opened, (one) => ({ ...one, asked: true, attempt: fact.attempt, writing, said }));
  return { ...next, asking, early: null };
};

// The wait for a model server: one note until the model has replied, as the server may come and go.
function awaited(journal, fact) {
  const told = (last(journal)?.notes ?? []).some((one) => one.kind === "awaits" && one.server === fact.server);
  const next = onLast(journal, (one) => ({ ...one, asked: false, writing: "", said: "" }));
  return told ? next : noted(next, { kind: "awaits", server: fact.server, text: `${fact.server}. ${fact.why}` });
}

// Failures that are tried again: one note, which counts, until the task gets on.
function failing(journal, fact) {
  const text = `${fact.count} of ${fact.most} times. ${fact.reason}`;
  return noted(onLast(journal, (one) => ({
    ...one, notes: one.notes.filter((note) => note.kind !== "failing"),
  })), { kind: "failing", text });
}

function proposed(journal, fact) {
  const calls = fact.calls.map((call, i) => ({
    call_id: call.call_id, tool: call.tool, args: call.args, computer: call.computer, verdict: fact.evaluations[i],
    state: STATE_OF[fact.evaluations[i]?.effect] ?? "proposed",
  }));
  const fresh = !journal.steps.length || last(journal).calls.length;
  const opened = fresh ? { ...journal, steps: [...journal.steps, step()] } : journal;
  return onLast(opened, (one) => ({
    ...one, explanation: fact.explanation, writing: "", said: "", calls, byModel: one.asked,
  }));
}

const STATE_OF = { allow: "allowed", ask: "to be asked", hint: "to be explained", deny: "denied" };
// Calls of which nothing came, where their task ends.
const OPEN = new Set(["proposed", "allowed", "to be asked", "to be explained", "asks", "asks you"]);

const each = (journal, list, change) =>
  list.reduce((all, one) => onCall(all, one.call_id, (call) => change(one, call)), journal);

const onEach = (journal, callIds, change) => each(journal, callIds.map((one) => ({ call_id: one })), change);

const closed = (journal) => ({
  ...journal,
  steps: journal.steps.map((one) => ({
    ...one, calls: one.calls.map((call) => (OPEN.has(call.state) ? { ...call, state: "not run" } : call)),
  })),
});

// The last step, which says why it ended where no call stands in it.
const explained = (one, fact) =>
  (one.calls.length ? one : { ...one, explanation: fact.explanation, writing: "", said: "" });

const AFTER = {
  approve: "approved", edit: "approved", reject: "rejected", respond: "answered", check: "checking",
  mark_done: "marked done", mark_failed: "marked failed", retry: "asked again",
};

// The diff that was shown is of the text before the edit.
const edited = (one, call, item) => ({
  args: one.args, reason: "", editReason: one.reason, editedBy: by(item), observed: undefined,
  original: call.original ?? call.args,
});

function decided(journal, fact, item) {
  let next = each(journal, fact.decisions, (one, call) => ({
    state: AFTER[one.action], decidedBy: by(item), reason: one.reason, answer: one.answer,
    // A later decision on what was edited has its own reason.
    ...(one.action === "edit" && edited(one, call, item)),
  }));
  for (const one of fact.decisions.filter((each) => each.retry_as)) {
    next = onLast(next, (own) => ({
      ...own, calls: [...own.calls, {
        ...own.calls.find((call) => call.call_id === one.call_id), call_id: one.retry_as, state: "asks",
        output: undefined, heard: undefined, result: undefined, decidedBy: "", reason: "",
      }],
    }));
  }
  return next;
}

const finished = (journal, fact) => onCall(journal, fact.call_id, () => ({
  state: fact.ok ? "done" : "failed", result: fact.text, code: fact.code, changed: fact.watched?.changed ?? [],
}));

const SETTLED = { interrupted: "interrupted", unknown: "outcome unknown", void: "never ran" };

const settled = (journal, fact) => (fact.state === "finished"
  ? finished(journal, fact)
  : onCall(journal, fact.call_id, () => ({ state: SETTLED[fact.state], result: fact.text || fact.reason })));

const END_SAID = {
  expired: "Nobody answered in time", superseded: "No longer asked about", stale: "What it was about changed",
  canceled: "It was canceled",
};

const HELD = new Map([[true, "holds"], [false, "does not hold"], [null, "is not known to hold"]]);

const checked = (one) => `The check ${one.check} ${HELD.get(one.holds)}. ${one.why}`;

// The answer ends the call that asked.
function answered(journal, fact, item) {
  const asking = journal.steps.flatMap((one) => one.calls).find((call) => call.question_id === fact.question_id);
  return noted(onCall(journal, asking?.call_id, () => ({ state: "answered" })),
    { kind: "answer", text: fact.answer, by: by(item) });
}

// The effect of each fact on the steps; a fact that is not named says nothing to people.
const FACTS = {
  task_submitted: (journal, fact) => ({ ...journal, submitted: fact }),
  model_asked: asked,
  model_awaited: (journal, fact) => awaited(journal, fact),
  model_replied: (journal) => ({ ...journal, replies: journal.replies + 1, asking: 0 }),
  reply_refused: (journal, fact) => noted(journal, { kind: "refused", text: fact.reason }),
  checks_judged: (journal, fact) => noted(journal, { kind: "checks", text: fact.results.map(checked).join("\n") }),
  calls_proposed: proposed,
  review_requested: (journal, fact) => each(journal, fact.calls, (one) => ({
    state: fact.reason === "approval" ? "asks" : "outcome unknown", observed: one.observed, verdict: one.evaluation,
  })),
  // One of several people edited it, and it waits for the others.
  review_noted: (journal, fact, item) => each(
    journal, (fact.decisions ?? []).filter(({ action }) => action === "edit"), (one, call) => edited(one, call, item),
  ),
  decision_recorded: decided,
  request_ended: (journal, fact) => noted(onEach(journal, fact.call_ids, () => ({ state: fact.end })), {
    kind: "ended", text: `${END_SAID[fact.end]}${fact.reason ? `: ${fact.reason}` : "."}`,
  }),
  // A hint may overtake it: heard output stays, and begins anew with the part at offset 0.
  tool_started: (journal, fact) => onCall(journal, fact.call_id, () => ({ state: "runs" })),
  tool_finished: finished,
  tool_settled: settled,
  question_asked: (journal, fact) => noted(
    onCall(journal, fact.call_id, () => ({ state: "asks you", question_id: fact.question_id })),
    { kind: "question", text: [fact.question, ...numbered(fact.options ?? [])].join("\n") },
  ),
  question_answered: answered,
  status_sent: (journal, fact) => noted(journal, { kind: "status", text: fact.message }),
  cancel_requested: (journal, fact, item) => noted(journal, { kind: "cancel", text: fact.reason, by: by(item) }),
  limit_reached: (journal, fact) =>
    noted(journal, { kind: "limit", text: `${fact.limit}${fact.detail ? `: ${fact.detail}` : ""}` }),
  work_failed: failing,
  work_frozen: (journal, fact) =>
    noted(journal, { kind: "frozen", text: `by ${fact.by}${fact.reason ? `: ${fact.reason}` : ""}` }),
  task_ended: (journal, fact) => ({
    ...onLast(closed(journal), (one) => explained(one, fact)), ended: fact,
  }),
};
