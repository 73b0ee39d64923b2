// A call in a few words: the frame says it without the parts that show a whole call.
import { oneLine } from "./text.js";
import { plural } from "./ui.js";

// A call in a few words, for lists.
export function short(call) {
  const on = [call.args.path, call.args.command, call.args.program].find((one) => typeof one === "string");
  return { what: oneLine(call.tool, 60), where: call.computer ? oneLine(call.computer, 40) : "this host",
    on: on === undefined ? "" : oneLine(on, 100) };
}

// The gravest call of a request in a few words, for one line.
export function calledOf(request) {
  const { what, where, on } = short(gravest(request));
  const more = request.tool_calls.length - 1;
  return [what, on, `on ${where}`, more > 0 && `and ${plural(more, "other")}`].filter(Boolean).join(" ");
}

// The first call that has the risk of its request.
export const gravest = (request) => request.tool_calls.find((call) => call.evaluation.risk === request.risk)
  ?? request.tool_calls[0] ?? { tool: "nothing", args: {} };
