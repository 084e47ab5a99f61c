/** Queues: min and max offset, message rate, and held pulls. */

import { cell, el, flash, panel, setAttribute, setText } from "../dom.js";
import { UNKNOWN, ago, count, isSystemTopic, plural, rate } from "../text/format.js";
import { isAttached } from "../pages/attached.js";
import { keepChecked, queryOf, writeQuery } from "../search_state.js";
import { queueRate } from "../stats.js";
import { isRetryTopic } from "../text/explain_group.js";
import { t } from "../text/translate.js";
import { VirtualRows } from "./virtual_rows.js";

const MOST_FLASHING = 6;
const AROUND = 4;
const TIMES_EVERY_MS = 500;
const byName = (a, b) => isRetryTopic(a.topic) - isRetryTopic(b.topic)
  || (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.queue_id - b.queue_id);

export function queuesPanel() {
  const { part } = panel("queues");
  const chosen = { word: queryOf("q.q").toLowerCase(), system: queryOf("q.system") !== "" };
  const matching = [];
  let drawn = {};
  let latest = null;
  let tickedAt = 0;
  let order = [];
  let flashes = 0;
  const rows = new VirtualRows(part("scroller"), part("rows"), { create, update, around: AROUND });

  function create(queue) {
    const number = (kind, label) => el("td", { role: "cell", class: `num ${kind}`, "data-label": label });
    const cells = { min: number("quiet", t("min")), max: number("max", t("max")), rate: number("", t("msgs/s")),
      age: number("quiet", t("last")), holds: number("", t("holds")) };
    const row = el("tr", { role: "row", "data-queue": queue.key,
      class: isSystemTopic(queue.topic, queue.broker) ? "system" : null },
    cell("queue-name mono", queue.key, queue.key), ...Object.values(cells));
    row.parts = cells;
    return row;
  }

  /** Shows a queue that has changed. Its rate and age also change with time: see `tick`. */
  function update(row, queue) {
    if (row.queue === queue) return;
    const cells = row.parts;
    const previous = row.getAttribute("data-max-offset");
    row.queue = queue;
    setText(cells.min, count(queue.min_offset));
    setText(cells.max, count(queue.max_offset));
    setText(cells.holds, count(queue.holds));
    if (previous !== null && previous !== String(queue.max_offset) && flashes < MOST_FLASHING) {
      flashes += 1;
      flash(cells.max, "--warn-soft", "--warn");
    }
    setAttribute(row, "data-max-offset", queue.max_offset);
    showTimes(row);
  }

  function showTimes(row) {
    const { queue, parts: cells } = row;
    const { now, state } = latest;
    const perSecond = rate(queueRate(queue, now, state.watchedSinceMs));
    setText(cells.rate, perSecond);
    cells.rate.classList.toggle("is-unknown", perSecond === UNKNOWN);
    const known = queue.last_store_time_ms !== null && now !== null;
    setText(cells.age, known ? ago(now - queue.last_store_time_ms) : queue.max_offset === 0 && !isAttached ? t("never") : t("unknown"));
  }

  function render(view) {
    latest = view;
    const { state } = view;
    if (drawn.queues === state.queues && drawn.changes === state.queuesChanges) return;
    drawn = { queues: state.queues, changes: state.queuesChanges };
    flashes = 0;
    const visible = collectMatching(state.queues);
    rows.show(matching, (queue) => queue.key);
    showCounts(state, state.queues.size - visible, visible, matching.length);
  }

  /** Fills `matching`, one array for all drawings, by name. -> the number of queues without those that are hidden. */
  function collectMatching(queues) {
    let visible = 0;
    let found = 0;
    inOrder(queues).forEach((key) => {
      const queue = queues.get(key);
      if (!chosen.system && isSystemTopic(queue.topic, queue.broker)) return;
      visible += 1;
      if (!chosen.word || key.toLowerCase().includes(chosen.word)) matching[found++] = queue;
    });
    matching.length = found;
    return visible;
  }

  /** The keys of the queues by name, those of retry topics last. They are sorted only when a queue came or went. */
  function inOrder(queues) {
    if (order.length !== queues.size || order.some((key) => !queues.has(key))) {
      order = [...queues.values()].sort(byName).map(({ key }) => key);
    }
    return order;
  }

  function showCounts(state, system, visible, matching) {
    const known = state.queuesTotal !== null;
    setText(part("count"), known ? plural(visible, "{0} queue", "{0} queues") : t("unknown"));
    const left = [];
    if (system) left.push(plural(system, "{0} queue of system topics hidden", "{0} queues of system topics hidden"));
    if (known && state.queuesTotal > state.queues.size) {
      left.push(plural(state.queuesTotal - state.queues.size, "{0} more queue exists; see /api/v1/topics", "{0} more queues exist; see /api/v1/topics"));
    }
    setText(part("left-out"), left.join(t("; ")) || (matching ? t("all queues are shown") : ""));
    part("empty").hidden = !known || matching > 0;
    setText(part("empty-title"), visible ? t("No queue matches this filter.") : t("No queues yet."));
  }

  function redraw() {
    drawn = {};
    if (latest) render(latest);
  }

  part("filter").value = queryOf("q.q");
  keepChecked(part("system"), "q.system");
  part("filter").addEventListener("input", (event) => {
    chosen.word = event.target.value.trim().toLowerCase();
    writeQuery({ "q.q": event.target.value.trim() });
    redraw();
  });
  part("system").addEventListener("change", (event) => {
    chosen.system = event.target.checked;
    redraw();
  });
  return {
    render,
    tick(view) {
      latest = view;
      if (view.localNow - tickedAt < TIMES_EVERY_MS) return;
      tickedAt = view.localNow;
      for (const row of rows.rows.values()) showTimes(row);
    },
  };
}
