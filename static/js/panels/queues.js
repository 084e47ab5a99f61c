/** Queues: min and max offset, message rate, and held pulls. */

import { KeyedRows, cell, el, flash, panel, setAttribute, setText } from "../dom.js";
import { UNKNOWN, ago, count, isSystemTopic, plural, rate } from "../text/format.js";
import { isAttached } from "../pages/attached.js";
import { queueRate } from "../stats.js";
import { t } from "../text/translate.js";

const MOST_ROWS = 300;
const TIMES_EVERY_MS = 500;
const byName = (a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.queue_id - b.queue_id);

export function queuesPanel() {
  const { part } = panel("queues");
  const chosen = { word: "", system: false };
  let drawn = null;
  let latest = null;
  let tickedAt = 0;
  const rows = new KeyedRows(part("rows"), { create, update });

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

  function update(row, queue) {
    const cells = row.parts;
    const previous = row.getAttribute("data-max-offset");
    row.queue = queue;
    setText(cells.min, count(queue.min_offset));
    setText(cells.max, count(queue.max_offset));
    setText(cells.holds, count(queue.holds));
    if (previous !== null && previous !== String(queue.max_offset)) flash(cells.max, "--warn-soft", "--warn");
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
    if (drawn === state.queues) return;
    drawn = state.queues;
    const all = [...state.queues.values()];
    const visible = all.filter((queue) => chosen.system || !isSystemTopic(queue.topic, queue.broker));
    const matching = visible.filter((queue) => queue.key.toLowerCase().includes(chosen.word)).sort(byName);
    rows.show(matching.slice(0, MOST_ROWS), (queue) => queue.key);
    showCounts(state, all.length - visible.length, visible.length, matching.length);
  }

  function showCounts(state, system, visible, matching) {
    const known = state.queuesTotal !== null;
    setText(part("count"), known ? plural(visible, "{0} queue", "{0} queues") : t("unknown"));
    const left = [];
    if (matching > MOST_ROWS) left.push(t("showing {0} of {1}; filter to see others", count(MOST_ROWS), count(matching)));
    if (system) left.push(plural(system, "{0} queue of system topics hidden", "{0} queues of system topics hidden"));
    if (known && state.queuesTotal > state.queues.size) {
      left.push(plural(state.queuesTotal - state.queues.size, "{0} more queue exists; see /api/v1/topics", "{0} more queues exist; see /api/v1/topics"));
    }
    setText(part("left-out"), left.join("; ") || (matching ? t("all queues are shown") : ""));
    part("empty").hidden = !known || matching > 0;
    setText(part("empty-title"), visible ? t("No queue matches this filter.") : t("No queues yet."));
  }

  function redraw() {
    drawn = null;
    if (latest) render(latest);
  }

  part("filter").addEventListener("input", (event) => {
    chosen.word = event.target.value.trim().toLowerCase();
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
