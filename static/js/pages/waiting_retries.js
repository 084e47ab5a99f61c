/** The messages of a group that wait for another try, those first that are due first. */

import { KeyedRows, cell, el, setText } from "../dom.js";
import { count, dateTime, isoTime, visible } from "../text/format.js";
import { request } from "../http.js";
import { messageHref, topicHref } from "../links.js";
import { bodyLine } from "../text/message_text.js";
import { Poller } from "../poll.js";
import { countText } from "../text/waiting_text.js";
import { t } from "../text/translate.js";

const EVERY_MS = 5_000;
const SHOWN = 50;
const BODY_BYTES = 400;
const group = document.body.dataset.group;
const part = (name) => document.querySelector(`[data-part="waiting-${name}"]`);
const rows = new KeyedRows(part("rows"), { create, update: () => {} });

function create({ due_ms: due, message }) {
  const origin = message.properties.RETRY_TOPIC ?? "";
  const tagAndKeys = [message.tag, ...message.keys].filter(Boolean).map(visible).join(" ");
  return el("tr", { role: "row", "data-waiting": message.offset_message_id },
    cell("quiet", isoTime(Number(due)), dateTime(Number(due))),
    el("td", { role: "cell", class: "num", "data-label": t("try") }, count(message.reconsume_times)),
    cell("mono long", origin, origin ? el("a", { href: topicHref(origin) }, origin) : t("unknown")),
    cell("names-cell long", tagAndKeys, el("bdi", {}, tagAndKeys || "–")),
    cell("mono long body-cell", null, el("bdi", {}, message.problem ? t("damaged: {0}", message.problem) : bodyLine(message))),
    cell("mono long id-cell", null, el("a", { href: messageHref({ ...message, message_id: message.offset_message_id }) }, visible(message.message_id))));
}

new Poller({
  ask: () => request("GET", `/groups/${encodeURIComponent(group)}/retries?limit=${SHOWN}&max_body=${BODY_BYTES}`),
  everyMs: EVERY_MS,
  onAnswer(answer) {
    rows.show(answer.retries, ({ message }) => message.offset_message_id);
    setText(part("count"), countText(answer));
    part("empty").hidden = Number(answer.waiting) > 0 || !answer.counted;
    setText(part("note"), "");
  },
  onError(error) {
    setText(part("count"), t("unknown"));
    setText(part("note"), error.message);
    part("empty").hidden = true;
  },
}).start();
