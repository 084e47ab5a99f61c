/** Wake-ups: every end of a hold with its cause, newest first. */

import { requestedBroker } from "../brokers.js";
import { cell, el, hasSelection, panel, queueName, setAttribute, setText } from "../dom.js";
import { CAUSES, cause, clockTime, count, isAnswered, micros } from "../text/format.js";
import { groupHref, holdHref } from "../links.js";
import { MAX_WAKEUPS, queueKey, wakeupKey } from "../reducer.js";
import { t } from "../text/translate.js";
import { VirtualRows } from "./virtual_rows.js";

const MOST_FLASHING = 6;
const AROUND = 4;

export function wakeupsPanel() {
  const { part } = panel("wakeups");
  const chosen = { cause: "", paused: null };
  let drawn = null;
  let latest = null;
  let flashing = false;
  let shown = [];
  const rows = new VirtualRows(part("scroller"), part("rows"), { create, update: () => {}, around: AROUND });

  function create(wakeup) {
    const { word, mark, means } = cause(wakeup.cause);
    const answered = isAnswered(wakeup.cause);
    return el("tr", { role: "row", "data-cause": wakeup.cause, "data-hold": wakeup.hold_id, class: flashing ? "fresh" : null },
      cell("mono quiet", null, clockTime(wakeup.wall_ms)),
      cell("cause-cell", means, el("span", { class: "cause" },
        el("span", { class: "cause-mark", "aria-hidden": "true" }, mark), word)),
      cell("mono queue-cell", queueKey(wakeup.topic, wakeup.queue_id), queueName(wakeup.topic, wakeup.queue_id)),
      cell(null, wakeup.group, wakeup.group ? el("a", { class: "quiet-link", href: groupHref(wakeup.group), tabindex: "-1" }, wakeup.group) : "–"),
      cell("quiet client-cell", wakeup.client_id, wakeup.client_id || "–"),
      label(cell("num", `${count(wakeup.held_us)} µs`,
        el("a", { class: "quiet-link", href: holdHref(wakeup.hold_id, requestedBroker), tabindex: "-1", "aria-label": t("hold {0}", wakeup.hold_id) }, micros(wakeup.held_us))), t("held")),
      label(cell("num", null, wakeup.wake_us > 0 ? micros(wakeup.wake_us) : "–"), t("latency")),
      label(cell("num", null, answered ? count(wakeup.messages) : "–"), t("msgs")));
  }

  function render(view) {
    latest = view;
    const list = chosen.paused ?? (drawn !== null && hasSelection(part("rows")) ? drawn : view.state.wakeups);
    if (drawn === list && list === view.state.wakeups) return;
    if (drawn !== list) {
      const fresh = drawn === null ? 0 : list.findIndex((wakeup) => wakeup === drawn[0]);
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
    if (latest) render(latest);
  }

  for (const [name, { word, mark }] of Object.entries(CAUSES)) {
    part("cause").append(el("option", { value: name }, `${mark} ${word}`));
  }
  part("cause").addEventListener("change", (event) => {
    chosen.cause = event.target.value;
    redraw();
  });
  part("pause").addEventListener("click", () => {
    chosen.paused = chosen.paused === null && latest ? latest.state.wakeups : null;
    setAttribute(part("pause"), "aria-pressed", chosen.paused !== null);
    setText(part("pause"), chosen.paused === null ? t("Pause") : t("Resume"));
    redraw();
  });
  return { render };
}

function label(td, text) {
  td.setAttribute("data-label", text);
  return td;
}
