/** The page of one message: time line, body, properties. */

import { consumeDialog } from "./consume_directly.js";
import { el, setAttribute, setText } from "../dom.js";
import { clockTime, count, dateTime, isoTime, plural, visible } from "../text/format.js";
import { request } from "../http.js";
import { groupHref, messageHref, messagesHref } from "../links.js";
import { bodyText, purposeOf, viewsOf } from "../text/message_text.js";
import { queueKey } from "../reducer.js";
import { eventsOf, groupsOf, stepsOf } from "../text/time_line.js";

const FIRST_SHOWN = 16_384;
const MOST_SHOWN = 1 << 20;
const MOST_STEPS = 200;

const id = document.body.dataset.message;
const topic = new URLSearchParams(location.search).get("topic") ?? "";
const part = (name, panel = "") => document.querySelector(`${panel && `[data-panel="${panel}"] `}[data-part="${name}"]`);
const consume = consumeDialog();
const shown = { message: null, view: "", limit: FIRST_SHOWN };

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

const missing = () => `No message has the id ${visible(id)}${topic ? ` in topic ${topic}` : ""}. It may have been deleted with its segment of the log `
  + `(fileReservedTime), or it was sent without an id to a topic that ${topic ? "is another one" : "has no index"}.`;

function showProblem(text) {
  setText(part("problem"), text);
  part("problem").hidden = !text;
  part("content").hidden = shown.message === null;
}

function showMessage(message) {
  const where = queueKey(message.topic, message.queue_id);
  part("back").href = messagesHref(message.topic);
  setText(part("back"), `Messages of ${message.topic}`);
  setText(part("about"), `In ${where} at offset ${count(message.queue_offset)}, stored ${dateTime(Number(message.store_time_ms))}.`
    + (message.reconsume_times ? ` It was sent back ${message.reconsume_times === 1 ? "once" : `${count(message.reconsume_times)} times`}.` : "")
    + (purposeOf(message) && ` ${purposeOf(message)}`)
    + (message.problem ? ` The record is damaged: ${message.problem}.` : ""));
  facts("facts", [["topic", message.topic], ["queue", where], ["offset", count(message.queue_offset)], ["tag", message.tag],
    ["keys", message.keys.join(" ")], ["born", timeOf(message.born_time_ms), `from ${message.born_host}`],
    ["stored", timeOf(message.store_time_ms), `at ${message.store_host}, ${message.broker}`],
    ["size in the log", plural(message.size, "byte")], ["physical offset", count(message.physical_offset)],
    ["message id", message.message_id], ["offset message id", message.offset_message_id]]);
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
  setText(part("body"), text || "The body is empty.");
  part("body").toggleAttribute("data-empty", !text);
  part("body").dataset.view = shown.view;
  setText(part("size", "body"), shown.message.body_encoding === "base64" ? "not UTF-8" : "UTF-8");
  const isCut = total === null || part_ < total;
  setText(part("cut"), total === null ? `The first ${plural(part_, unit)}, indented.` : isCut ? `The first ${count(part_)} of ${plural(total, unit)}.` : `${plural(total, unit)}.`);
  part("more").hidden = !isCut || shown.limit >= MOST_SHOWN;
  for (const button of part("views").children) setAttribute(button, "aria-pressed", button.dataset.view === shown.view);
}

function showTimeLine(message, timeline) {
  const events = eventsOf(timeline);
  const steps = stepsOf(message, events);
  let day = "";
  part("rows", "time-line").replaceChildren(...steps.slice(0, MOST_STEPS).map(({ at, word, tone, text, group }) => {
    const date = dateTime(at).slice(0, -clockTime(at).length);
    const before = date === day ? "" : date;
    day = date;
    return el("li", { "data-step": word, "data-tone": tone }, el("span", { class: "step-time mono", title: isoTime(at) }, `${before}${clockTime(at)}`),
      el("span", { class: "chip", "data-tone": tone }, word), group ? el("a", { href: groupHref(group) }, group) : "",
      el("span", { class: "step-text" }, visible(text)));
  }));
  const left = steps.length > MOST_STEPS ? `the first ${count(MOST_STEPS)} of ${count(steps.length)} steps` : "";
  setText(part("note", "time-line"), [left, timeline.complete ? "" : "older events are no longer kept, so steps may be missing"].filter(Boolean).join("; "));
  const groups = groupsOf(message, events, timeline.complete);
  part("rows", "groups").replaceChildren(...groups.map(({ group, word, tone, text }) => el("li", { "data-message-group": group },
    el("a", { href: groupHref(group) }, group), " ", el("span", { class: "chip", "data-tone": tone }, word), el("p", { class: "quiet" }, text))));
  setText(part("empty", "groups"), timeline.complete ? "No group has received the message." : "It is not known whether a group received the message: older events are no longer kept.");
  part("empty", "groups").hidden = groups.length > 0;
}

part("views").addEventListener("click", (event) => {
  const view = event.target.closest("[data-view]")?.dataset.view;
  if (!view) return;
  Object.assign(shown, { view, limit: FIRST_SHOWN });
  showBody();
});
part("more").addEventListener("click", () => {
  shown.limit *= 4;
  showBody();
});
part("refresh").addEventListener("click", load);
part("consume").addEventListener("click", () => consume.open(shown.message));
load();
