/** Events of clients and groups, newest first. */

import { KeyedRows, el, hasSelection, panel, setAttribute, setText } from "../dom.js";
import { count, dateTime } from "../text/format.js";
import { showsAllBrokers } from "../brokers.js";
import { explainEvent } from "../text/explain_group.js";
import { MAX_EVENTS } from "../client_events.js";
import { groupHref, messageHref } from "../links.js";
import { t } from "../text/translate.js";

const MOST_FLASHING = 8;

/** `link`: whether each line links to its group. */
export function clientEventsPanel({ link = true } = {}) {
  const { part } = panel("client-events");
  const rows = new KeyedRows(part("rows"), { create, update });
  let drawn = null;
  let brokersShown = false;
  let paused = null;
  let latest = null;
  let flashing = false;

  function create(event) {
    const { mark, word, tone, text } = explainEvent(event);
    const where = link && event.group ? el("a", { class: "event-group", href: groupHref(event.group) }, event.group) : "";
    return el("li", { "data-event": event.type, class: flashing ? "fresh" : null },
      el("span", { class: "event-time mono quiet" }, dateTime(event.wall_ms)),
      el("span", { class: "chip", "data-tone": tone }, el("span", { class: "chip-mark", "aria-hidden": "true" }, mark), word),
      where, el("span", { class: "event-broker quiet" }), el("span", { class: "event-text" }, ...linked(text, event)));
  }

  /** The broker's name is added once the page knows that there are several. */
  function update(row, event) {
    setText(row.querySelector(".event-broker"), showsAllBrokers() ? event.broker : "");
  }

  function render(view) {
    latest = view;
    const list = paused ?? (drawn !== null && hasSelection(part("rows")) ? drawn : view.events);
    const isPaused = paused !== null || list !== view.events;
    if (drawn !== list || brokersShown !== showsAllBrokers()) {
      const fresh = drawn === null ? 0 : list.findIndex((event) => event === drawn[0]);
      flashing = fresh > 0 && fresh <= MOST_FLASHING;
      drawn = list;
      brokersShown = showsAllBrokers();
      rows.show(list, (event) => `${event.broker} ${event.seq}`);
    }
    const known = view.state.seq !== null;
    const newer = isPaused ? view.events.filter((event) => !list.includes(event)).length : 0;
    const many = list.length >= MAX_EVENTS ? t("last {0}", count(list.length)) : count(list.length);
    setText(part("count"), known ? `${many}${isPaused ? t("; paused, {0} newer", count(newer)) : ""}` : t("unknown"));
    part("empty").hidden = !known || list.length > 0;
  }

  part("pause").addEventListener("click", () => {
    paused = paused === null && latest ? latest.events : null;
    setAttribute(part("pause"), "aria-pressed", paused !== null);
    setText(part("pause"), paused === null ? t("Pause") : t("Resume"));
    if (latest) render(latest);
  });
  return { render };
}

/** The sentence of an event, with a link to the page of its message if it names one. */
function linked(text, { message_id: id, topic }) {
  const at = id ? text.indexOf(id) : -1;
  if (at < 0) return [text];
  return [text.slice(0, at), el("a", { class: "mono", href: messageHref({ message_id: id, topic }) }, id), text.slice(at + id.length)];
}
