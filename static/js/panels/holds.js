/** The pullRequestTable: one row for each held pull, with its age and deadline. */

import { KeyedRows, calm, cell, el, hasSelection, panel, setAttribute, setText } from "../dom.js";
import { acceptsAll, isPop, waitForOrder } from "../text/explain.js";
import { count, plural, seconds, span } from "../text/format.js";
import { groupHref } from "../links.js";
import { queueKey } from "../reducer.js";
import { queryOf, writeQuery } from "../search_state.js";
import { firstOf } from "../stats.js";
import { holdDetail } from "./hold_detail.js";
import { t } from "../text/translate.js";

const PAGE_OF_ROWS = 100;
const FILTER_FITS = 8; // its column is the narrowest
const LEAVING_MS = 700;
const MOST_LEAVING = 24;

const compareText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const byQueue = (a, b) => compareText(a.topic, b.topic) || a.queue_id - b.queue_id || compareText(a.group, b.group)
  || compareText(a.client_id, b.client_id) || a.id - b.id;
const SORTS = {
  queue: byQueue,
  group: (a, b) => compareText(a.group, b.group) || byQueue(a, b),
  client: (a, b) => compareText(a.client_id, b.client_id) || byQueue(a, b),
  offset: (a, b) => a.pull_from_offset - b.pull_from_offset || byQueue(a, b),
  filter: (a, b) => compareText(a.filter, b.filter) || byQueue(a, b),
  deadline: (a, b) => a.deadline_ms - b.deadline_ms || a.id - b.id,
};

export function holdsPanel({ isOwn }) {
  const { root, part } = panel("holds");
  const body = part("rows");
  const detail = holdDetail(part);
  const sort = queryOf("h.sort");
  const chosen = { sort: Object.hasOwn(SORTS, sort) ? sort : "queue", descending: queryOf("h.descending") !== "",
    words: wordsOf(queryOf("h.q")), limit: PAGE_OF_ROWS, selected: null };
  let linked = Number(queryOf("hold")); // a selected hold of the address, until the first snapshot; 0 if there is none
  const ages = ageBars(part("scroller"));
  const matching = [];
  let drawn = {};
  let latest = null;
  let leaving = 0;

  const rows = new KeyedRows(body, { create, update, leave });

  function create(hold) {
    const cells = {
      name: el("button", { type: "button", class: "row-button mono", tabindex: "-1" }, queueKey(hold.topic, hold.queue_id)),
      max: el("span", { class: "queue-end" }),
      track: el("span", { class: "age-track", "aria-hidden": "true" }),
      left: el("span", { class: "age-left" }),
    };
    const row = el("tr", { role: "row", "data-hold-id": hold.id },
      cell("queue-cell", queueKey(hold.topic, hold.queue_id), cells.name),
      cell("group-cell", hold.group, hold.group ? el("a", { class: "quiet-link", href: groupHref(hold.group), tabindex: "-1" }, hold.group) : "–"),
      cell("quiet client-cell", t("{0} over {1}", hold.client_id, hold.protocol),
        hold.client_id || "–", el("span", { class: "protocol" }, PROTOCOLS[hold.protocol] ?? hold.protocol)),
      cell("num offset-cell mono", hold.waits_for ? waitForOrder(hold) : null,
        el("span", { class: "pull-offset" }, offsetOf(hold)), isPop(hold) ? "" : " / ", cells.max),
      cell(`mono quiet filter-cell${hold.filter.length > FILTER_FITS ? " long" : ""}`, hold.filter, hold.filter || "*"),
      cell("age-cell", null, el("span", { class: "age" }, cells.track, cells.left)));
    Object.assign(row, { parts: cells, hold, queue: queueKey(hold.topic, hold.queue_id) });
    row.toggleAttribute("data-own", isOwn(hold));
    ages.add(row, latest);
    return row;
  }

  /** Shows what can change while the pull is held. Most rows have not changed since the last drawing. */
  function update(row, hold) {
    const queue = latest.state.queues.get(row.queue);
    const end = queue ? queue.max_offset : hold.queue_max_offset;
    const isSelected = hold.id === chosen.selected;
    if (row.end === end && row.isSelected === isSelected) return;
    Object.assign(row, { end, isSelected });
    setText(row.parts.max, isPop(hold) ? "" : count(end));
    row.toggleAttribute("data-behind", !isPop(hold) && end > hold.pull_from_offset);
    row.toggleAttribute("data-selected", isSelected);
    setAttribute(row.parts.name, "aria-pressed", isSelected);
  }

  /** A row stays for a moment after its hold ended, in the colour of the cause. */
  function leave(row) {
    ages.remove(row);
    const id = row.hold.id;
    row.removeAttribute("data-hold-id");
    row.parts.name.setAttribute("tabindex", "-1");
    if (latest.state.holds.has(id) || !hasSelection(row) && (leaving >= MOST_LEAVING || calm.matches)) return false;
    const end = latest.state.wakeups.find((wakeup) => wakeup.hold_id === id);
    row.dataset.leaving = end ? end.cause : "unknown";
    setText(row.parts.left, "");
    leaving += 1;
    removeLater(row);
    return true;
  }

  function removeLater(row) {
    window.setTimeout(() => {
      if (hasSelection(row)) {
        removeLater(row);
        return;
      }
      leaving -= 1;
      row.remove();
    }, LEAVING_MS);
  }

  function select(id) {
    chosen.selected = chosen.selected === id ? null : id;
    detail.select(chosen.selected === null ? null : latest.state.holds.get(id));
    linked = 0;
    writeQuery({ hold: chosen.selected === null ? "" : String(id) });
    redraw();
  }

  /** Selects the hold that the address names, when the page knows the holds. */
  function selectLinked({ holds, seq }) {
    if (!linked || seq === null) return;
    const hold = holds.get(linked);
    if (hold) {
      chosen.selected = linked;
      detail.select(hold);
    } else detail.showMissing(linked);
    linked = 0;
  }

  /** This page's own holds come first, so that a newcomer finds them. */
  function byChoice(a, b) {
    return isOwn(b) - isOwn(a) || SORTS[chosen.sort](a, b) * (chosen.descending ? -1 : 1);
  }

  function redraw() {
    drawn = {};
    if (latest) render(latest);
  }

  function render(view) {
    latest = view;
    const { state } = view;
    selectLinked(state);
    const changes = state.holdsChanges + state.queuesChanges;
    if (drawn.holds !== state.holds || drawn.queues !== state.queues || drawn.changes !== changes) {
      drawn = { holds: state.holds, queues: state.queues, changes };
      collectMatching(state.holds);
      const shown = firstOf(matching, chosen.limit, byChoice);
      const focused = document.activeElement.closest?.("[data-hold-id]");
      rows.show(shown, (hold) => hold.id);
      if (focused && !focused.hasAttribute("data-hold-id")) refocus(body, focused.hold);
      setTabStop(body);
      showCounts(state, matching.length, shown.length);
    }
    tick(view);
  }

  /** Fills `matching`, one array for all drawings: a new one of 10,000 holds each time would be much garbage. */
  function collectMatching(holds) {
    let found = 0;
    for (const hold of holds.values()) {
      if (!chosen.words.length || matches(hold, chosen.words)) matching[found++] = hold;
    }
    matching.length = found;
  }

  function tick(view) {
    latest = view;
    ages.tick(view);
    detail.tick(view);
  }

  function showCounts(state, matching, shown) {
    const known = state.holdsTotal !== null;
    setText(part("count"), known ? t("{0} held", count(state.holdsTotal)) : t("unknown"));
    const left = [];
    if (chosen.words.length && known) left.push(t("{0} match", count(matching)));
    if (shown < matching) left.push(t("showing {0} of {1}", count(shown), count(matching)));
    if (known && state.holdsTotal > state.holds.size) {
      left.push(plural(state.holdsTotal - state.holds.size, "{0} more pull is held; list them with /api/v1/holds?topic=", "{0} more pulls are held; list them with /api/v1/holds?topic="));
    }
    setText(part("left-out"), left.join(t("; ")) || (shown ? t("all held pulls are shown") : ""));
    part("more").hidden = shown >= matching;
    const empty = known && matching === 0;
    part("empty").hidden = !empty;
    if (empty) setText(part("curl"), howToHold(state));
    setText(part("empty-title"), state.holds.size ? t("No held pull matches this filter.") : t("No pull is held."));
  }

  function showOrder() {
    for (const button of root.querySelectorAll("[data-sort]")) {
      const order = button.dataset.sort === chosen.sort ? (chosen.descending ? "descending" : "ascending") : null;
      setAttribute(button.closest("th"), "aria-sort", order);
    }
  }

  part("filter").value = queryOf("h.q");
  showOrder();
  part("filter").addEventListener("input", (event) => {
    chosen.words = wordsOf(event.target.value);
    writeQuery({ "h.q": event.target.value.trim() });
    chosen.limit = PAGE_OF_ROWS;
    redraw();
  });
  part("more").addEventListener("click", () => {
    chosen.limit += PAGE_OF_ROWS;
    redraw();
  });
  root.querySelector("thead").addEventListener("click", (event) => {
    const name = event.target.closest("[data-sort]")?.dataset.sort;
    if (!name) return;
    chosen.descending = chosen.sort === name && !chosen.descending;
    chosen.sort = name;
    writeQuery({ "h.sort": name === "queue" ? "" : name, "h.descending": chosen.descending ? "1" : "" });
    showOrder();
    redraw();
  });
  body.addEventListener("click", (event) => {
    const row = event.target.closest("a") ? null : event.target.closest("[data-hold-id]");
    if (row) select(row.hold.id);
  });
  body.addEventListener("keydown", (event) => moveFocus(event, body));
  return { render, tick };
}

const PROTOCOLS = { http: "HTTP", websocket: "WebSocket", remoting: "remoting" };

/** Shell commands that cause a hold on quickstart@0, at its current end. */
function howToHold(state) {
  const topic = `${location.origin}/api/v1/topics/quickstart`;
  const queue = state.queues.get(queueKey("quickstart", 0));
  const make = `curl -X PUT -H 'Content-Type: application/json' -d '{"queues": 4}' ${topic}\n`;
  return `${queue ? "" : make}curl '${topic}/queues/0/messages?offset=${queue ? queue.max_offset : 0}&wait_ms=15000&group=by-hand'`;
}

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

function matches(hold, words) {
  if (!words.length) return true;
  const all = `${queueKey(hold.topic, hold.queue_id)} ${hold.group} ${hold.client_id} ${hold.protocol} ${
    acceptsAll(hold.filter) ? "*" : hold.filter} #${hold.id}`.toLowerCase();
  return words.every((word) => all.includes(word));
}

/** Lets Tab reach one row of the table; the arrow keys move on from there. */
function setTabStop(body) {
  if (body.querySelector('.row-button[tabindex="0"]')) return;
  body.querySelector("[data-hold-id] .row-button")?.setAttribute("tabindex", "0");
}

function moveFocus(event, body) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const buttons = [...body.querySelectorAll("[data-hold-id] .row-button")];
  const next = buttons[buttons.indexOf(document.activeElement) + step];
  if (!next) return;
  event.preventDefault();
  takeFocus(body, next);
}

function takeFocus(body, button) {
  for (const other of body.querySelectorAll('.row-button[tabindex="0"]')) other.setAttribute("tabindex", "-1");
  button.setAttribute("tabindex", "0");
  button.focus({ preventScroll: true });
}

/** Moves the focus from the row of an ended hold to its client's next pull, or else to the next row. */
function refocus(body, ended) {
  const rows = [...body.querySelectorAll("[data-hold-id]")];
  const same = rows.find(({ hold }) => hold.client_id === ended.client_id && hold.group === ended.group
    && hold.topic === ended.topic && hold.queue_id === ended.queue_id);
  const next = same ?? rows.find(({ hold }) => byQueue(hold, ended) > 0) ?? rows.at(-1);
  if (next) takeFocus(body, next.parts.name);
}

function offsetOf(hold) {
  if (!isPop(hold)) return count(hold.pull_from_offset);
  return hold.waits_for ? plural(hold.waits_for.messages, "{0} ack missing", "{0} acks missing") : "pop";
}

/** A time left, to the second or tenth of a second that is shown of it; -1 if there is none. */
function shownTime(ms) {
  const step = ms >= 60_000 ? 1000 : 100;
  return ms < 0 ? -1 : Math.floor(ms / step) * step;
}

/**
 * Updates the ages on the broker's clock, ten times a second. Only visible rows are updated, so that a thousand holds
 * cost no more than a screen of them.
 */
function ageBars(scroller) {
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) seen.add(target);
      else seen.delete(target);
    }
  }, { root: scroller, rootMargin: "60px" });

  function show(row, now) {
    const { suspended_at_ms: from, deadline_ms: to } = row.hold;
    const left = shownTime(to - now);
    if (row.left !== left) {
      row.left = left;
      setText(row.parts.left, left >= 60_000 ? span(left) : left >= 0 ? seconds(left) : t("due"));
      row.toggleAttribute("data-due", left < 0);
    }
    const share = Math.min(1, Math.max(0, (now - from) / Math.max(1, to - from)));
    const percent = Math.round(share * 100); // a finer step is less than a pixel
    if (row.percent === percent) return;
    row.percent = percent;
    row.parts.track.style.backgroundSize = `${percent}% 100%`;
  }

  return {
    add(row, { now }) {
      observer.observe(row);
      if (now !== null) show(row, now);
    },
    remove(row) {
      observer.unobserve(row);
      seen.delete(row);
    },
    tick({ now }) {
      if (now !== null) for (const row of seen) show(row, now);
    },
  };
}
