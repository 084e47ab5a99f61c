/** What a message's page says about it, and how its body is shown: as text, as JSON or as bytes. Pure. */

import { serverNow } from "../clock.js";
import { dateTime, plural, visible } from "./format.js";
import { t } from "./translate.js";

const ROW = 16;
const DEEPEST = 40;

const LONGEST_SLOT_MS = 1000;

/** When a timer message is due, ms: its exact time in the slot that the broker put it into; RocketMQ's is the slot's end. */
export function dueOf(properties, storedMs) {
  const slot = Number(properties.TIMER_OUT_MS);
  const times = [storedMs + properties.TIMER_DELAY_SEC * 1000, storedMs + Number(properties.TIMER_DELAY_MS), Number(properties.TIMER_DELIVER_MS)];
  return times.find((at) => slot < at && at <= slot + LONGEST_SLOT_MS) ?? slot + LONGEST_SLOT_MS;
}

/** What a message in a topic of the broker's own is for; "" for all others. */
export function purposeOf({ topic, properties, store_time_ms: stored }, nowMs = serverNow()) {
  if (topic === "SCHEDULE_TOPIC_XXXX") return t("It is for {0}, after the delay of level {1}.", properties.REAL_TOPIC, properties.DELAY);
  if (topic !== "rmq_sys_wheel_timer") return "";
  const time = dateTime(dueOf(properties, Number(stored)), nowMs);
  return "TIMER_DEL_UNIQKEY" in properties
    ? t("It is a recall of the message with the same id, which was due for {0} at {1}. Search for the topic to see whether that was delivered.", properties.REAL_TOPIC, time)
    : t("It is due for {0} at {1}.", properties.REAL_TOPIC, time);
}

/** Why a message is a dead letter, as far as it tells: its attempts beside the group's maximum of retries (null: unknown). */
export function deadText(attempts, most) {
  if (most === null) return plural(attempts, "after {0} attempt", "after {0} attempts");
  return attempts > most ? plural(attempts, "after {0} attempt: the group's maximum of retries, {1}, is reached", "after {0} attempts: the group's maximum of retries, {1}, is reached", most)
    : plural(attempts, "after {0} attempt: its consumer gave it up, or allows fewer retries than the group's {1}", "after {0} attempts: its consumer gave it up, or allows fewer retries than the group's {1}", most);
}

/** The bytes of a body of the API. */
export function bytesOf({ body, body_encoding: encoding }) {
  if (encoding !== "base64") return new TextEncoder().encode(body);
  return Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0));
}

/** The ways in which a body can be shown, the best one first. Only objects and lists count as JSON. */
export function viewsOf({ body, body_encoding: encoding }) {
  if (encoding === "base64") return ["hex", "text"];
  return /^\s*[[{]/.test(body) && parsed(body) !== undefined ? ["json", "text", "hex"] : ["text", "hex"];
}

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** The first `limit` characters of a body in one view, or of its bytes for "hex": {text, shown, total, unit}. JSON is only
 * indented as far as it is shown, so its `total` is null if more follows. */
export function bodyText(message, view, limit) {
  if (view === "hex") {
    const bytes = bytesOf(message);
    return { text: hexRows(bytes.subarray(0, limit)), shown: Math.min(limit, bytes.length), total: bytes.length, unit: "byte" };
  }
  if (view === "json") {
    const [text, isCut] = indented(message.body, limit);
    return { text: visible(text.slice(0, limit)), shown: Math.min(limit, text.length), total: isCut ? null : text.length, unit: "character" };
  }
  const text = plain(message);
  return { text: visible(text.slice(0, limit)), shown: Math.min(limit, text.length), total: text.length, unit: "character" };
}

/** JSON with indentation, a little over `limit` characters at most: [text, whether more follows]. Its numbers and the
 * order of its names stay as they were sent. */
function indented(body, limit) {
  let out = "";
  let depth = 0;
  let last = "";
  const line = () => {
    out += `\n${"  ".repeat(Math.min(depth, DEEPEST))}`;
  };
  for (const [token] of body.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    if (out.length > limit) return [out, true];
    if (token === "}" || token === "]") {
      depth -= 1;
      if (last !== "{" && last !== "[") line();
    } else if (last === "{" || last === "[" || last === ",") {
      line();
    }
    out += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    last = token;
  }
  return [out, false];
}

/** A body as text; bytes that are not UTF-8 become �. */
function plain(message) {
  return message.body_encoding === "base64" ? new TextDecoder().decode(bytesOf(message)) : message.body;
}

/** "00000000  48 65 6c 6c 6f                                    Hello" for each 16 bytes. */
export function hexRows(bytes) {
  const rows = [];
  for (let at = 0; at < bytes.length; at += ROW) {
    const part = [...bytes.subarray(at, at + ROW)];
    const hex = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    rows.push(`${at.toString(16).padStart(8, "0")}  ${hex.padEnd(ROW * 3 - 1)}  ${text}`);
  }
  return rows.join("\n");
}

/** The beginning of a body on one line, for a table. For a batch that is one record, its number of messages. */
export function bodyLine({ body, body_encoding: encoding, properties }) {
  const inner = Number(properties?.INNER_NUM);
  if (inner) return plural(inner, "a batch of {0} message", "a batch of {0} messages");
  const text = encoding === "base64" ? `base64 ${body}` : body;
  return visible(text.slice(0, 200).replace(/\s+/g, " ").trim()) || (body ? t("blank") : t("empty"));
}
