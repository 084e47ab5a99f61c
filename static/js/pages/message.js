/** The page of one message: time line, body, properties. */

import { consumeDialog } from "./consume_directly.js";
import { el, setAttribute, setText } from "../dom.js";
import { count, dateTime, isoTime, plural, visible } from "../text/format.js";
import { request } from "../http.js";
import { groupHref, messageHref, messagesHref } from "../links.js";
import { queryOf, writeQuery } from "../search_state.js";
import { bodyText, purposeOf, viewsOf } from "../text/message_text.js";
import { queueKey } from "../reducer.js";
import { eventsOf, groupsOf, stepsOf } from "../text/time_line.js";
import { t } from "../text/translate.js";

/** Of the body's length. */
const UNITS = {
  byte: (number) => plural(number, "{0} byte", "{0} bytes"),
  character: (number) => plural(number, "{0} character", "{0} characters"),
};

const FIRST_SHOWN = 16_384;
const MOST_SHOWN = 1_048_576;
const MOST_STEPS = 200;

const id = document.body.dataset.message;
const topic = queryOf("topic");
const part = (name, panel = "") => document.querySelector(`${panel && `[data-panel="${panel}"] `}[data-part="${name}"]`);
const consume = consumeDialog();
const shown = { message: null, view: queryOf("view"), limit: FIRST_SHOWN };

async function load() {
  const path = `/messages/${encodeURIComponent(id)}`;
  const query = topic ? `?topic=${encodeURIComponent(topic)}` : "";
  part("refresh").disabled = true;
  try {
    const [message, timeline] = await Promise.all([request("GET", `${path}${query}`), request("GET", `${path}/timeline${query}`)]);
    showMessage(message);
    showTimeLine(message, timeline);
    showProblem("");
  } catch (error) {
    showProblem(error.status === 404 ? missing() : error.message);
  } finally {
    part("refresh").disabled = false;
  }
}

const missing = () => topic ? t("No message has the id {0} in topic {1}. It may have been deleted with its segment of the log (fileReservedTime), or it was sent without an id to a topic that is another one.", visible(id), topic)
  : t("No message has the id {0}. It may have been deleted with its segment of the log (fileReservedTime), or it was sent without an id to a topic that has no index.", visible(id));

function showProblem(text) {
  setText(part("problem"), text);
  part("problem").hidden = !text;
  part("content").hidden = shown.message === null;
}

function showMessage(message) {
  const where = queueKey(message.topic, message.queue_id);
  part("back").href = messagesHref(message.topic);
  setText(part("back"), t("Messages of {0}", message.topic));
  setText(part("about"), t("In {0} at offset {1}, stored {2}.", where, count(message.queue_offset), dateTime(Number(message.store_time_ms)))
    + (message.reconsume_times ? plural(message.reconsume_times, " It was sent back once.", " It was sent back {0} times.") : "")
    + (purposeOf(message) && ` ${purposeOf(message)}`)
    + (message.problem ? t(" The record is damaged: {0}.", message.problem) : ""));
  facts("facts", [[t("topic"), message.topic], [t("queue"), where], [t("offset"), count(message.queue_offset)], [t("tag"), message.tag],
    [t("keys"), message.keys.join(" ")], [t("born"), timeOf(message.born_time_ms), t("from {0}", message.born_host)],
    [t("stored"), timeOf(message.store_time_ms), t("at {0}, {1}", message.store_host, message.broker)],
    [t("size in the log"), plural(message.size, "{0} byte", "{0} bytes")], [t("physical offset"), count(message.physical_offset)],
    [t("message id"), message.message_id], [t("offset message id"), message.offset_message_id]]);
  const properties = Object.entries(message.properties).sort(([one], [other]) => (one < other ? -1 : 1));
  facts("properties", properties);
  setText(part("count", "properties"), count(properties.length));
  part("empty", "properties").hidden = properties.length > 0;
  const views = viewsOf(message);
  for (const button of part("views").children) button.disabled = !views.includes(button.dataset.view);
  shown.message = message;
  part("consume").disabled = Boolean(message.problem);
  if (!views.includes(shown.view)) shown.view = views[0];
  showBody();
}

const timeOf = (ms) => `${dateTime(Number(ms))} (${isoTime(Number(ms))})`;

function facts(panel, entries) {
  part("rows", panel).replaceChildren(...entries.filter(([, value]) => value).map(([name, value, more]) => el("div", {},
    el("dt", {}, el("bdi", {}, visible(name))), el("dd", { class: "mono" }, el("bdi", {}, visible(value)), more ? el("span", { class: "quiet" }, ` ${more}`) : ""))));
}

function showBody() {
  const { text, shown: part_, total, unit } = bodyText(shown.message, shown.view, shown.limit);
  setText(part("body"), text || t("The body is empty."));
  part("body").toggleAttribute("data-empty", !text);
  part("body").dataset.view = shown.view;
  setText(part("size", "body"), shown.message.body_encoding === "base64" ? t("not UTF-8") : "UTF-8");
  const isCut = total === null || part_ < total;
  setText(part("cut"), total === null ? t("The first {0}, indented.", UNITS[unit](part_)) : isCut ? t("The first {0} of {1}.", count(part_), UNITS[unit](total)) : t("{0}.", UNITS[unit](total)));
  part("more").hidden = !isCut || shown.limit >= MOST_SHOWN;
  for (const button of part("views").children) setAttribute(button, "aria-pressed", button.dataset.view === shown.view);
}

function showTimeLine(message, timeline) {
  const events = eventsOf(timeline);
  const steps = stepsOf(message, events);
  part("rows", "time-line").replaceChildren(...steps.slice(0, MOST_STEPS).map(({ at, word, tone, text, group }) => {
    return el("li", { "data-step": word, "data-tone": tone }, el("span", { class: "step-time mono", title: isoTime(at) }, dateTime(at)),
      el("span", { class: "chip", "data-tone": tone }, word), group ? el("a", { href: groupHref(group) }, group) : "",
      el("span", { class: "step-text" }, visible(text)));
  }));
  const left = steps.length > MOST_STEPS ? t("the first {0} of {1} steps", count(MOST_STEPS), count(steps.length)) : "";
  setText(part("note", "time-line"), [left, timeline.complete ? "" : t("older events are no longer kept, so steps may be missing")].filter(Boolean).join(t("; ")));
  const groups = groupsOf(message, events, timeline.complete);
  part("rows", "groups").replaceChildren(...groups.map(({ group, word, tone, text }) => el("li", { "data-message-group": group },
    el("a", { href: groupHref(group) }, group), " ", el("span", { class: "chip", "data-tone": tone }, word), el("p", { class: "quiet" }, text))));
  setText(part("empty", "groups"), timeline.complete ? t("No group has received the message.") : t("It is not known whether a group received the message: older events are no longer kept."));
  part("empty", "groups").hidden = groups.length > 0;
}

part("views").addEventListener("click", (event) => {
  const view = event.target.closest("[data-view]")?.dataset.view;
  if (!view) return;
  Object.assign(shown, { view, limit: FIRST_SHOWN });
  writeQuery({ view });
  showBody();
});
part("more").addEventListener("click", () => {
  shown.limit *= 4;
  showBody();
});
part("refresh").addEventListener("click", load);
part("consume").addEventListener("click", () => consume.open(shown.message));
document.addEventListener("outage-over", () => { if (shown.message === null) load(); });
load();
