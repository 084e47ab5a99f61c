/** Calls to the public API. A failure is an Error with a sentence for the reader as its message. */

import { withBroker } from "./brokers.js";
import { isServerTimeKnown, noteDate, serverNow } from "./clock.js";
import { serverText } from "./text/server/texts.js";
import { t } from "./text/translate.js";

/** The server's time. If no answer has had it yet, asks the server first. */
export async function askServerTime() {
  if (!isServerTimeKnown()) await requestOfAll("GET", "/brokers");
  return serverNow();
}

export class Problem extends Error {
  constructor(sentence, { status = 0, code = "", retryAfter = null } = {}) {
    super(sentence);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** The JSON answer of the page's broker. 64-bit integers are strings, because JavaScript numbers cannot hold them.
 * `more` has further headers. */
export async function request(method, path, body = undefined, more = {}) {
  return requestOfAll(method, withBroker(path), body, more);
}

/** The answer to a GET with 64-bit integers as numbers, as the frames of the WebSockets have them. */
export async function requestNumbers(path) {
  return requestOfAll("GET", withBroker(path), undefined, {}, "number");
}

/** All pages of a list, until it has `most` entries or more: the last page's answer with all entries, and `hasMore`.
 * `ask` requests one page. */
export async function requestPages(path, name, most, ask = request) {
  let entries = [];
  let answer = { next: "" };
  const unavailable = new Set();
  do {
    answer = await ask("GET", answer.next ? `${path}${path.includes("?") ? "&" : "?"}after=${encodeURIComponent(answer.next)}` : path);
    entries = entries.concat(answer[name]);
    for (const broker of answer.unavailable ?? []) unavailable.add(broker);
  } while (answer.next !== undefined && entries.length < most);
  return { ...answer, [name]: entries, unavailable: [...unavailable], hasMore: answer.next !== undefined };
}

/** The same as `request`, from all brokers. */
export async function requestOfAll(method, path, body = undefined, more = {}, int64 = "string") {
  const separator = path.includes("?") ? "&" : "?";
  const headers = { Accept: "application/json", ...more };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(`/api/v1${path}${separator}int64=${int64}`, {
      method, headers, credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem(t("The web server does not answer: the request or its answer was lost."));
  }
  noteDate(response.headers.get("Date"));
  const text = await response.text();
  const answer = parse(text);
  if (!response.ok) throw problemOf(response, answer);
  if (answer === null && text) throw new Problem(t("The web server's answer is not JSON."), { status: response.status });
  return answer;
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function problemOf(response, problem) {
  const options = { status: response.status, code: String(problem?.code ?? ""),
    retryAfter: Number(response.headers.get("Retry-After")) || null };
  return new Problem(problemSentence(problem)
    ?? t("The web server answered {0} and gave no reason.", response.status), options);
}

/** The sentence of an RFC 9457 problem, with its code and its first field error; null when it has no text. */
export function problemSentence(problem) {
  const detail = serverText(problem?.detail || problem?.title);
  if (!detail) return null;
  const first = Array.isArray(problem.errors) && problem.errors[0]?.detail ? ` ${serverText(problem.errors[0].detail)}` : "";
  const code = problem.code ? ` (${problem.code})` : "";
  return `${detail}${first === ` ${detail}` ? "" : first}${code}`;
}

export const topicPath = (topic) => `/topics/${encodeURIComponent(topic)}`;
