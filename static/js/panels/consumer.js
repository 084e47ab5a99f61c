/** The consumer in the page: its form, its messages, and the "Show me" tour. */

import { KeyedRows, el, panel, setText } from "../dom.js";
import { explainPull } from "../text/explain.js";
import { count, plural } from "../text/format.js";
import { messageHref } from "../links.js";
import { Tour } from "./tour.js";
import { t } from "../text/translate.js";

const MOST_MESSAGES = 100;

export function consumerPanel({ consumer, publish, wakeups }) {
  const { part } = panel("consumer");
  const form = part("form");
  const received = [];
  const rows = new KeyedRows(part("received"), { create, update });
  const tour = new Tour({ consumer, publish, steps: part("steps"), next: part("next"), button: part("show-me"), wakeups,
    fields: () => fields(form) });
  let changed = true;
  let consumerState = { text: t("Not started."), failed: false };

  consumer.listen((kind, detail) => {
    if (kind === "state") consumerState = detail;
    if (kind === "pulled") for (const message of detail.messages) remember(message, detail);
    changed = true;
    showState();
  });

  function remember(message, { hold, at }) {
    const sent = publish.sentAt(message.message_id);
    received.unshift({ key: `${message.topic}@${message.queue_id}:${message.queue_offset}`, message, hold, at,
      roundTripMs: sent === null ? null : at - sent, wakeUs: null });
    received.splice(MOST_MESSAGES);
  }

  function create(entry) {
    const { message } = entry;
    const outcome = el("p", { class: "received-how" });
    const tag = message.tag ? t(" tag {0}", message.tag) : "";
    const row = el("li", {},
      el("p", { class: "received-where" }, t("{0}@{1} offset {2}{3} ", message.topic, message.queue_id, count(message.queue_offset), tag),
        el("a", { href: messageHref(message) }, t("message"))),
      el("p", { class: "received-body" }, bodyText(message)), outcome);
    row.outcome = outcome;
    return row;
  }

  function update(row, entry) {
    if (entry.wakeUs === null && entry.hold) {
      entry.wakeUs = wakeups().find((wakeup) => wakeup.hold_id === Number(entry.hold.id))?.wake_us ?? null;
      changed ||= entry.wakeUs === null;
    }
    // The message may be delivered before the publish call is answered.
    if (entry.roundTripMs === null) {
      const sent = publish.sentAt(entry.message.message_id);
      if (sent !== null) entry.roundTripMs = Math.max(0, entry.at - sent);
    }
    setText(row.outcome, explainPull(entry.hold, entry.wakeUs, entry.roundTripMs));
  }

  function showState() {
    const held = consumer.heldNow;
    const text = consumerState.text || (held
      ? plural(held, "Holding {0} pull on {1}, as {2}.", "Holding {0} pulls on {1}, as {2}.", consumer.topic, consumer.clientId)
      : t("Pulling from {0} …", consumer.topic));
    setText(part("state"), text);
    part("state").toggleAttribute("data-failed", consumerState.failed);
    part("state").setAttribute("aria-live", consumerState.failed ? "polite" : "off"); // otherwise a screen reader would read out every message
    setText(part("toggle"), consumer.running ? t("Stop") : t("Start"));
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (consumer.running) {
      consumer.stop();
      return;
    }
    await consumer.start(fields(form)).catch(() => {}); // the state shows the error
  });
  part("show-me").addEventListener("click", () => tour.start());
  part("received").append(el("li", { class: "received-empty", "data-leaving": "" }, t("Received messages appear here, with the wake-up of their pull.")));

  return {
    render() {
      if (!changed) return;
      changed = false;
      const none = part("received").querySelector(".received-empty");
      if (none && received.length) none.remove();
      rows.show(received, (entry) => entry.key);
    },
    tick() {
      if (changed) this.render();
    },
  };
}

function fields(form) {
  const { topic, group, filter } = Object.fromEntries(new FormData(form));
  return { topic: topic.trim(), group: group.trim(), filter: filter.trim() || "*" };
}

function bodyText(message) {
  const text = typeof message.body === "string" ? message.body : JSON.stringify(message.body);
  const shown = text.length > 500 ? `${text.slice(0, 500)} …` : text;
  return message.body_encoding === "base64" ? `base64: ${shown}` : shown;
}
