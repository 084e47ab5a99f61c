/** Wake-ups: every end of a hold with its cause, newest first. */

import { requestedBroker } from "../brokers.js";
import { cell, clipLong, el, hasSelection, panel, queueIdText, setAttribute, setText } from "../dom.js";
import { CAUSES, cause, count, dateTime, isAnswered, micros } from "../text/format.js";
import { groupHref, holdHref } from "../links.js";
import { MAX_WAKEUPS, queueKey, wakeupKey } from "../reducer.js";
import { queryOf, writeQuery } from "../search_state.js";
import { t } from "../text/translate.js";
import { VirtualRows } from "./virtual_rows.js";

const MOST_FLASHING = 6;
const AROUND = 4;
const REPLACED_EVERY_MS = 300; // nobody reads a table that is replaced ten times a second, and drawing it costs much

export function wakeupsPanel() {
  const { part } = panel("wakeups");
  const wanted = queryOf("cause");
  const chosen = { cause: Object.hasOwn(CAUSES, wanted) ? wanted : "", paused: null };
  let drawn = null;
  let latest = null;
  let drawnAt = -REPLACED_EVERY_MS;
  let flashing = false;
  let shown = [];
  const rows = new VirtualRows(part("scroller"), part("rows"), { create, update, reuse: true, around: AROUND });

  /** Fills the row if it now belongs to another wake-up. A wake-up itself never changes. */
  function update(row, wakeup) {
    if (row.wakeup === wakeup) return;
    row.wakeup = wakeup;
    row.classList.toggle("fresh", flashing);
    fill(row, wakeup);
  }

  function render(view) {
    latest = view;
    const list = chosen.paused ?? (drawn !== null && hasSelection(part("rows")) ? drawn : view.state.wakeups);
    if (drawn === list && list === view.state.wakeups) return;
    if (drawn !== list) {
      const fresh = drawn === null ? 0 : list.findIndex((wakeup) => wakeup === drawn[0]);
      const isReplaced = fresh < 0 || fresh > MOST_FLASHING;
      if (isReplaced && performance.now() - drawnAt < REPLACED_EVERY_MS) return; // `tick` draws it later
      drawnAt = performance.now();
      flashing = fresh > 0 && fresh <= MOST_FLASHING; // flashing a whole table would not help
      const first = shown[0];
      shown = list.filter((wakeup) => !chosen.cause || wakeup.cause === chosen.cause);
      rows.keepPlace(shown.indexOf(first));
      drawn = list;
      rows.show(shown, wakeupKey);
      flashing = false; // a row that comes into sight later is not fresh
    }
    showCounts(view.state, list);
  }

  function showCounts(state, list) {
    const known = state.seq !== null;
    const isPaused = chosen.paused !== null || list !== state.wakeups;
    const newer = isPaused ? state.wakeups.filter((wakeup) => wakeup.seq > (list[0]?.seq ?? 0)).length : 0;
    const parts = [list.length >= MAX_WAKEUPS ? t("last {0}", count(MAX_WAKEUPS)) : count(list.length)];
    if (chosen.cause) parts.push(t("{0} by {1}", count(shown.length), cause(chosen.cause).word));
    if (isPaused) parts.push(t("paused, {0}{1} newer", newer >= MAX_WAKEUPS ? t("over ") : "", count(newer)));
    if (state.dropped > 0) parts.push(t("{0} not shown, too many at once", count(state.dropped)));
    setText(part("count"), known ? parts.join(t("; ")) : t("unknown"));
    part("empty").hidden = !known || shown.length > 0;
    setText(part("empty-title"), list.length ? t("No wake-up with this cause.") : t("No held pull has ended yet."));
  }

  function redraw() {
    drawn = null;
    drawnAt = -REPLACED_EVERY_MS;
    if (latest) render(latest);
  }

  for (const [name, { word, mark }] of Object.entries(CAUSES)) {
    part("cause").append(el("option", { value: name }, `${mark} ${word}`));
  }
  part("cause").value = chosen.cause;
  part("cause").addEventListener("change", (event) => {
    chosen.cause = event.target.value;
    writeQuery({ cause: chosen.cause });
    redraw();
  });
  part("pause").addEventListener("click", () => {
    chosen.paused = chosen.paused === null && latest ? latest.state.wakeups : null;
    setAttribute(part("pause"), "aria-pressed", chosen.paused !== null);
    setText(part("pause"), chosen.paused === null ? t("Pause") : t("Resume"));
    redraw();
  });
  return { render, tick: render };
}

/** A row without its wake-up. Each part has a text node, which `fill` changes. */
function create() {
  const link = () => el("a", { class: "quiet-link", tabindex: "-1" }, " ");
  const parts = { time: cell("mono quiet", null, " "), cause: cell("cause-cell", null), queue: cell("mono queue-cell", null),
    group: cell(null, null), client: cell("quiet client-cell", null, " "), held: cell("num", null),
    latency: cell("num", null, " "), messages: cell("num", null, " ") };
  const row = el("tr", { role: "row" }, ...Object.values(parts));
  row.parts = { ...parts, mark: el("span", { class: "cause-mark", "aria-hidden": "true" }, " "), word: el("span", {}, " "),
    topic: el("span", { class: "queue-topic" }, " "), queueId: el("span", {}, " "), groupLink: link(), holdLink: link() };
  parts.cause.append(el("span", { class: "cause" }, row.parts.mark, row.parts.word));
  parts.queue.append(el("span", { class: "queue-place" }, row.parts.topic, row.parts.queueId));
  parts.group.append(row.parts.groupLink);
  parts.held.append(row.parts.holdLink);
  for (const [name, text] of [["held", t("held")], ["latency", t("latency")], ["messages", t("msgs")]]) {
    parts[name].setAttribute("data-label", text);
  }
  return row;
}

function fill(row, wakeup) {
  const { parts } = row;
  const { word, mark, means } = cause(wakeup.cause);
  const [key, queueId] = [queueKey(wakeup.topic, wakeup.queue_id), queueIdText(wakeup.queue_id)];
  setAttribute(row, "data-cause", wakeup.cause);
  setAttribute(row, "data-hold", wakeup.hold_id);
  setText(parts.time, dateTime(wakeup.wall_ms));
  setAttribute(parts.cause, "title", means);
  setText(parts.mark, mark);
  setText(parts.word, word);
  setAttribute(parts.queue, "title", key);
  setText(parts.topic, wakeup.topic);
  setText(parts.queueId, queueId);
  setAttribute(parts.group, "title", wakeup.group);
  setText(parts.groupLink, wakeup.group || "–");
  setAttribute(parts.groupLink, "href", wakeup.group ? groupHref(wakeup.group) : null);
  setAttribute(parts.client, "title", wakeup.client_id);
  setText(parts.client, wakeup.client_id || "–");
  setAttribute(parts.held, "title", `${count(wakeup.held_us)} µs`);
  setAttribute(parts.holdLink, "href", holdHref(wakeup.hold_id, requestedBroker));
  setAttribute(parts.holdLink, "aria-label", t("hold {0}", wakeup.hold_id));
  setText(parts.holdLink, micros(wakeup.held_us));
  setText(parts.latency, wakeup.wake_us > 0 ? micros(wakeup.wake_us) : "–");
  setText(parts.messages, isAnswered(wakeup.cause) ? count(wakeup.messages) : "–");
  clipLong(parts.queue, wakeup.topic.length + queueId.length);
  clipLong(parts.group, wakeup.group.length);
  clipLong(parts.client, wakeup.client_id.length);
}
