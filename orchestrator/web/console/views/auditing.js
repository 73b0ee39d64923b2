// The names of the audit's items, and one line about each.
export const KINDS = {
  task_submitted: "Task submitted", model_asked: "Model asked", model_replied: "Model replied",
  model_awaited: "Model server waited for", checks_begun: "Checks begun", checks_judged: "Checks judged",
  reply_refused: "Reply refused", calls_proposed: "Calls proposed", review_requested: "Approval asked for",
  decision_recorded: "Decided", request_ended: "Request ended", review_noted: "Review noted",
  tool_started: "Call started", tool_finished: "Call finished", tool_settled: "Call settled",
  question_asked: "Question asked", question_answered: "Question answered", status_sent: "Status sent",
  cancel_requested: "Cancel asked for", limit_reached: "Limit reached", work_failed: "Failed, tried again",
  work_frozen: "Frozen",
  task_ended: "Task ended", undo_submitted: "Undo submitted", task_pinned: "Task kept", task_unpinned: "Task not kept",
  rehearsal_ended: "Rehearsal ended", node_started: "Server started", node_stopped: "Server stopped",
  policy_loaded: "Policy loaded", policy_refused: "Policy refused", token_issued: "Token made",
  token_revoked: "Token revoked", signed_in: "Signed in", signed_out: "Signed out",
  grant_revoked: "Grant taken back", attempt_refused: "Attempt refused", checkpoint_made: "Checkpoint made",
  computer_frozen: "Computer frozen", computer_labelled: "Computer labelled", computer_released: "Computer released",
  computers_arrived: "Computers came from another cell",
  computer_welcomed: "Computer connected", agreed: "Agreed between nodes", computer_backed_up: "Backup made",
  backup_removed: "Backup removed", directory_changed: "Group or owner changed",
  keys_sent: "Keys typed", task_pruned: "Task pruned",
};
const LONG = 64;

const calls = (fact) => fact.calls.map((call, at) => {
  const verdict = fact.evaluations?.[at];
  const on = call.args?.path ?? call.args?.command ?? "";
  const where = call.computer ? ` on ${call.computer}` : "";
  return `${call.tool ?? call.call_id ?? ""}${where} ${on}${verdict ? ` → ${verdict.effect}` : ""}`.trim();
}).join(", ");

const REQUEST_ENDS = {
  expired: "nobody answered in time", superseded: "no longer asked about", stale: "what it was about changed",
  canceled: "canceled",
};

const TOLD = {
  task_submitted: (fact) => fact.prompt ?? "",
  calls_proposed: calls,
  review_requested: (fact) => `${fact.risk} risk, ${fact.request_id}`,
  decision_recorded: (fact) => [
    ...fact.decisions.map((one) => `${one.action}${one.reason ? ` (${one.reason})` : ""}`), fact.request_id,
  ].join(", "),
  token_issued: (fact) => `${fact.holder_kind} ${fact.name}${fact.roles?.length ? `: ${fact.roles.join(", ")}` : ""}`,
  token_revoked: (fact) => `${fact.holder_kind} ${fact.name}`,
  attempt_refused: (fact) => `${fact.door}: ${fact.detail || fact.code}${fact.more ? ` (and ${fact.more} more)` : ""}`,
  signed_in: (fact) => (fact.peer ? `from ${fact.peer}` : ""),
  directory_changed: (fact) => `${fact.about} ${fact.name}${fact.value ? "" : " removed"}`,
  keys_sent: (fact) => `${fact.computer}: ${fact.text || (fact.keys ?? []).join(" ")}`,
  request_ended: (fact) => [REQUEST_ENDS[fact.end] ?? fact.end, fact.reason].filter(Boolean).join(": "),
  review_noted: (fact) => (fact.what ?? "").replaceAll("_", " "),
  limit_reached: (fact) => [(fact.limit ?? "").replaceAll("_", " "), fact.detail].filter(Boolean).join(": "),
  work_frozen: (fact) => `by ${fact.by}${fact.reason ? `: ${fact.reason}` : ""}`,
  work_failed: (fact) => `${fact.effect}, ${fact.count} of ${fact.most}: ${fact.reason}`,
  model_asked: (fact) => (fact.attempt > 1 ? `attempt ${fact.attempt}` : ""),
  model_awaited: (fact) => `${fact.server}: ${fact.why}`,
  model_replied: ({ usage, done_reason: reason }) => [
    `${usage.input_tokens} tokens read, ${usage.output_tokens} written`, reason !== "stop" && `ended by ${reason}`,
  ].filter(Boolean).join(", "),
  tool_settled: (fact) => [fact.state, fact.text || fact.reason].filter(Boolean).join(": "),
  task_ended: (fact) => [fact.status, fact.reason, fact.message].filter((one) => typeof one === "string" && one)
    .join(", "),
};

// The first few of its plain fields; ids and digests tell nobody anything.
const plain = (fact) => Object.entries(fact)
  .filter(([name, value]) => name !== "kind" && !/_id$/.test(name) && !/^[0-9a-f]{24,}$/.test(value)
    && (typeof value === "number" || (typeof value === "string" && value && value.length < LONG * 4)))
  .slice(0, 4).map(([name, value]) => `${name.replaceAll("_", " ")} ${String(value).slice(0, LONG)}`).join(", ");

// One line on an item; a kind that this page does not know yet is told by its fields.
export function told(fact) {
  try {
    return (TOLD[fact.kind] ?? plain)(fact);
  } catch {
    return plain(fact);
  }
}
