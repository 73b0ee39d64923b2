// The endpoints by fetch: CSRF, idempotency keys, and every error as a sentence with what to do next.
const LIMIT_MS = 70_000;
const UNREACHABLE = "The server does not answer.";

export class Problem extends Error {
  constructor(status, { code = "", message, remedy = "", details = {} }) {
    super(message);
    Object.assign(this, { status, code, remedy, details });
  }

  // Nobody knows whether the request was carried out.
  get undelivered() {
    return this.status === 0 || this.status >= 502;
  }

  get sentence() {
    return this.remedy ? `${this.message} ${this.remedy}` : this.message;
  }
}

const held = { csrf: "", signedOut: () => {}, skew: 0 };

export function hold(fields) {
  Object.assign(held, fields);
}

// The server's time, by which deadlines are counted; in ms.
export const now = () => Date.now() + held.skew;

export const newKey = () => crypto.randomUUID?.()
  ?? Array.from(crypto.getRandomValues(new Uint32Array(4)), String).join("-");

// A reading request is repeated; for any other one nobody knows whether it was done.
export const unreachable = (method = "GET") => new Problem(0, method === "GET"
  ? { code: "unreachable", message: UNREACHABLE, remedy: "This page goes on trying." }
  : {
    code: "unreachable", message: `${UNREACHABLE} It is not known whether this was done.`,
    remedy: "Look before you do it again.",
  });

// The answer to a request that was sent with a key of its own.
export const COUNTS_ONCE = "Not delivered: the server did not answer, so it is not known whether this counts. "
  + "Send it again; it counts once.";

// An answer's error as a Problem; an answer that is not this server's is one too.
export async function problemOf(answer) {
  const told = await answer.json().catch(() => null);
  const problem = told?.error
    ? new Problem(answer.status, told.error)
    : new Problem(answer.status, {
      message: `The server answered ${answer.status} without a reason.`, remedy: "Try again soon.",
    });
  if (answer.status === 401) held.signedOut();
  return problem;
}

// `stop`: a signal of a caller that no longer wants to know.
export async function ask(method, path, body, stop) {
  const headers = method === "GET" ? {} : { "X-CSRF-Token": held.csrf };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body),
      signal: stop ? AbortSignal.any([AbortSignal.timeout(LIMIT_MS), stop]) : AbortSignal.timeout(LIMIT_MS),
    });
  } catch {
    throw unreachable(method);
  }
  const date = Date.parse(answer.headers.get("date") ?? "");
  // The header has whole seconds: a difference of less than two does not count.
  if (date) held.skew = Math.abs(date - Date.now()) < 2000 ? 0 : date - Date.now();
  if (!answer.ok) throw await problemOf(answer);
  if (answer.status === 204) return {};
  try {
    return await answer.json();
  } catch {
    throw unreachable(method);
  }
}

export const get = (path, stop) => ask("GET", path, undefined, stop);
export const post = (path, body = {}) => ask("POST", path, body);
export const id = encodeURIComponent;
