/** The messages of the publish form. Pure. */

import { count, plural } from "./text/format.js";
import { t } from "./text/translate.js";

const MOST_MESSAGES = 1_000;

/**
 * The messages to publish, from the fields of the form; throws an Error that says what is wrong. With `lines` each line of
 * the body that is not blank is one message. `properties` has one name=value a line.
 */
export function messagesOf({ body, tag = "", keys = "", queue = "", delay = "", properties = "", lines = false }) {
  const common = { body_encoding: "utf8" };
  if (tag.trim()) common.tag = tag.trim();
  const words = keys.split(" ").filter(Boolean);
  if (words.length) common.keys = words;
  if (queue.trim()) common.queue_id = whole(queue, 0, t("The queue is a number, 0 or more; leave it empty and the broker chooses."));
  const named = propertiesOf(properties);
  if (delay.trim()) named.DELAY = String(whole(delay, 1, t("The delay is a level: a number, 1 or more.")));
  if (Object.keys(named).length) common.properties = named;
  const bodies = lines ? body.split(/\r?\n/).filter((line) => line.trim()) : [body];
  if (!bodies.length) throw new Error(t("Enter at least one line: each line is a message."));
  if (bodies.length > MOST_MESSAGES) throw new Error(t("{0} messages are too many; publish {1} at most at a time.", count(bodies.length), MOST_MESSAGES));
  return bodies.map((text) => ({ body: text, ...common }));
}

function whole(text, least, problem) {
  const trimmed = text.trim();
  if (!/^\d{1,9}$/.test(trimmed) || Number(trimmed) < least) throw new Error(problem);
  return Number(trimmed);
}

function propertiesOf(text) {
  const named = {};
  for (const line of text.split(/\r?\n/)) {
    if (!line.trim()) continue;
    const at = line.indexOf("=");
    if (at < 1) throw new Error(t("A property is written as name=value; “{0}” is not.", line.trim().slice(0, 40)));
    named[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return named;
}

/** The messages in groups that one request takes: a delayed message is published alone. */
export const requestsOf = (messages) => (messages[0].properties?.DELAY && messages.length > 1 ? messages.map((one) => [one]) : [messages]);

/**
 * Sends the messages with `send(some, key)`, which promises their places; each request has an Idempotency-Key of its own
 * under `key`. Promises all places. An error says how many messages were stored before it; without an answer, at least.
 */
export async function sendAll(messages, key, send) {
  const places = [];
  for (const [turn, some] of requestsOf(messages).entries()) {
    try {
      places.push(...await send(some, `${key}-${turn}`));
    } catch (error) {
      const least = [0, 504].includes(error.status) ? t("at least ") : "";
      if (places.length) error.message = t("{0}{1} of {2} stored; {3}", least, count(places.length), plural(messages.length, "{0} message", "{0} messages"), error.message);
      throw error;
    }
  }
  return places;
}

/** The Idempotency-Key of each press of a button: a new one, unless the press before failed with the same content. */
export function pressKeys(random) {
  let last = { content: "", key: "", failed: false };
  return {
    keyOf(content) {
      last = { content, key: last.failed && last.content === content ? last.key : random(), failed: false };
      return last.key;
    },
    pressFailed() {
      last.failed = true;
    },
  };
}
