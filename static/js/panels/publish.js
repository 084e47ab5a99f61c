/** Publishes one message and shows where the broker stored it. */

import { el, panel } from "../dom.js";
import { count, dateTime, plural } from "../text/format.js";
import { request, topicPath } from "../http.js";
import { messageHref } from "../links.js";
import { messagesOf, pressKeys, sendAll } from "../publish_fields.js";
import { t } from "../text/translate.js";

const MOST_TIMES = 200;
const presses = pressKeys(() => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join(""));

export function publishPanel() {
  const { part } = panel("publish");
  const form = part("form");
  const result = part("result");
  const sentAt = new Map();

  /** Publishes one message. Returns where it was stored; throws an Error with a sentence. */
  async function publish({ topic, body, tag = "", keys = [] }) {
    const message = { body, body_encoding: "utf8" };
    if (tag) message.tag = tag;
    if (keys.length) message.keys = keys;
    const at = performance.now();
    const answer = await request("POST", `${topicPath(topic)}/messages`, message);
    const stored = answer.messages[0];
    sentAt.set(stored.message_id, at);
    if (sentAt.size > MOST_TIMES) sentAt.delete(sentAt.keys().next().value);
    showStored(stored);
    return stored;
  }

  /** Publishes the messages of the form, and shows where the last one was stored. */
  async function publishAll(topic, messages) {
    const key = presses.keyOf(JSON.stringify([topic, messages]));
    try {
      const places = await sendAll(messages, key, async (some, ownKey) => {
        const body = some.length === 1 ? some[0] : { messages: some };
        return (await request("POST", `${topicPath(topic)}/messages`, body, { "Idempotency-Key": ownKey })).messages;
      });
      showStored(places.at(-1), places.length);
    } catch (error) {
      presses.pressFailed();
      throw error;
    }
  }

  function showStored(stored, number = 1) {
    result.toggleAttribute("data-failed", false);
    result.toggleAttribute("data-good", true);
    result.replaceChildren(number > 1 ? plural(number, "{0} message stored, the last as ", "{0} messages stored, the last as ") : t("Stored as "),
      el("code", {}, `${stored.topic}@${stored.queue_id}`), t(" at offset {0}, ", count(stored.queue_offset)),
      t("{0}, message id ", dateTime(Number(stored.store_time_ms))),
      el("a", { href: messageHref(stored) }, el("code", {}, stored.message_id)), ".");
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(form));
    part("send").disabled = true;
    try {
      const messages = messagesOf({ ...fields, lines: Boolean(fields.lines) });
      await publishAll(fields.topic.trim(), messages);
    } catch (error) {
      result.toggleAttribute("data-good", false);
      result.toggleAttribute("data-failed", true);
      result.textContent = error.message;
    } finally {
      part("send").disabled = false;
    }
  });

  return {
    publish,
    /** The performance.now() at which this page sent a message; null for other messages. */
    sentAt: (messageId) => sentAt.get(messageId) ?? null,
    render: () => {},
  };
}
