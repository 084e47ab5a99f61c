/** Calls to the public API. A failure becomes an Error whose message is a sentence for the reader. */

import { ofBroker } from "./brokers.js";

export class Problem extends Error {
  constructor(sentence, { status = 0, code = "", retryAfter = null } = {}) {
    super(sentence);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** JSON of an answer by the page's broker. 64-bit numbers come as strings, since a page cannot hold them otherwise. */
export async function request(method, path, body = undefined) {
  return requestOfAll(method, ofBroker(path), body);
}

/** The same of all brokers. */
export async function requestOfAll(method, path, body = undefined) {
  const separator = path.includes("?") ? "&" : "?";
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const token = document.querySelector('meta[name="csrf-token"]')?.content;
  if (token && method !== "GET") headers["X-CSRFToken"] = token;
  let response;
  try {
    response = await fetch(`/api/v1${path}${separator}int64=string`, {
      method, headers, credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem("The broker's web side does not answer; nothing was sent or its answer was lost.");
  }
  const text = await response.text();
  const answer = parse(text);
  if (!response.ok) throw problemOf(response, answer);
  if (answer === null && text) throw new Problem("The answer is not JSON.", { status: response.status });
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
    ?? `The broker's web side answered ${response.status} and did not say why.`, options);
}

/** The sentence of an RFC 9457 problem, with its code and the field it points at; null when it says nothing. */
export function problemSentence(problem) {
  const said = problem?.detail || problem?.title;
  if (!said) return null;
  const first = Array.isArray(problem.errors) && problem.errors[0]?.detail ? ` ${problem.errors[0].detail}` : "";
  const code = problem.code ? ` (${problem.code})` : "";
  return `${said}${first === ` ${said}` ? "" : first}${code}`;
}

export const topicPath = (topic) => `/topics/${encodeURIComponent(topic)}`;
