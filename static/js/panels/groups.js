/** All consumer groups: state, topics, members, lag and held pulls. */

import { cell, el, panel, setAttribute, setText } from "../dom.js";
import { UNKNOWN, count, isKnown, plural, rate, span } from "../text/format.js";
import { showsAllBrokers } from "../brokers.js";
import { serverNow } from "../clock.js";
import { countStates, countedState, groupState, joinNames, isRetryTopic, lagText } from "../text/explain_group.js";
import { groupHref } from "../links.js";
import { unavailableText } from "./clients.js";
import { writeQuery } from "../search_state.js";
import { byText, showLeftOut, tableChoice } from "./sorting.js";
import { LagTrends, Sparkline } from "./sparkline.js";
import { VirtualRows } from "./virtual_rows.js";
import { t } from "../text/translate.js";
import { word } from "../text/words.js";

export const MOST_GROUPS = 20_000;
const byNumber = (name) => (a, b) => (b[name] ?? -1) - (a[name] ?? -1) || byName(a, b);
const byName = (a, b) => byText(a.group, b.group);
const SORTS = {
  group: byName,
  state: (a, b) => groupState(a).rank - groupState(b).rank || byName(a, b),
  members: (a, b) => a.members - b.members || byName(a, b),
  lag: byNumber("lag"),
  oldest: byNumber("oldest_ms"),
  rate: byNumber("consume_tps"),
  retrying: byNumber("retrying"),
  dead: byNumber("dead_letters"),
  holds: (a, b) => a.holds - b.holds || byName(a, b),
};

export function groupsPanel() {
  const { root, part } = panel("groups");
  const rows = new VirtualRows(part("scroller"), part("rows"), { create, update });
  const choice = tableChoice({ root, part, sorts: SORTS, first: "state", most: MOST_GROUPS, changed: () => latest && render(latest),
    textOf: (group) => [group.group, ...group.brokers, ...group.topics, word(group.state), ...group.problems.map(word)].join(" ") });
  let latest = null;
  let several = false;
  let state = new URLSearchParams(location.search).get("state") ?? "";
  let remembered = null;
  const trends = new LagTrends(() => latest && render(latest));

  function remember(answer) {
    if (remembered === answer) return;
    remembered = answer;
    trends.add(answer.groups, ({ lag, unknown_queues: unknown }) => (unknown && !lag ? null : lag), serverNow());
  }

  function create(group) {
    const number = (kind, label) => el("td", { role: "cell", class: `num ${kind}`, "data-label": label });
    const parts = { mark: el("span", { class: "chip-mark", "aria-hidden": "true" }), word: el("span", {}),
      topics: cell("quiet topics-cell long", null), members: number("members-cell", t("members")),
      lag: number("lag-cell", t("lag")), oldest: number("oldest-cell quiet", t("oldest")), rate: number("rate-cell", t("consume TPS")),
      retrying: number("retrying-cell", t("retrying")), dead: number("dead-cell", t("dead")), holds: number("", t("holds")) };
    parts.trend = new Sparkline();
    parts.chip = el("span", { class: "chip" }, parts.mark, parts.word);
    parts.brokers = el("span", { class: "group-brokers quiet" });
    const row = el("tr", { role: "row", "data-group-row": group.group },
      cell("group-cell long", group.group, el("a", { href: groupHref(group.group) }, group.group),
        parts.brokers),
      cell("state-cell", null, parts.chip), parts.topics, parts.members, parts.lag,
      el("td", { role: "cell", class: "trend-cell" }, parts.trend.node), parts.oldest, parts.rate, parts.retrying, parts.dead, parts.holds);
    row.parts = parts;
    return row;
  }

  function update(row, group) {
    const { mark, word: stateWord, tone } = groupState(group);
    const topics = group.topics.filter((topic) => !isRetryTopic(topic)).join(t(", ")) || "–";
    setText(row.parts.brokers, several ? t("on {0}", joinNames(group.brokers)) : "");
    setText(row.parts.mark, mark);
    setText(row.parts.word, stateWord);
    row.parts.chip.dataset.tone = tone;
    setAttribute(row.parts.chip, "title", group.problems.map(word).join(t(", ")) || null);
    setText(row.parts.topics, topics);
    setAttribute(row.parts.topics, "title", topics);
    setText(row.parts.members, group.message_model === "BROADCASTING" ? t("{0} broadcasting", count(group.members)) : count(group.members));
    const lag = lagText(group);
    setText(row.parts.lag, lag);
    row.parts.lag.classList.toggle("is-unknown", lag === UNKNOWN);
    row.parts.lag.title = group.unknown_queues ? plural(group.unknown_queues, "The lag of {0} queue is unknown: no offset is committed there.", "The lag of {0} queues is unknown: no offset is committed there.") : "";
    row.parts.trend.show(trends.of(group.group), t("lag"));
    if (!several) trends.want(group.group); // each broker has a history of its own
    setText(row.parts.oldest, isKnown(group.oldest_ms) ? span(group.oldest_ms) : lag === "0" ? "–" : UNKNOWN);
    setText(row.parts.rate, rate(group.consume_tps));
    setText(row.parts.retrying, count(group.retrying));
    setText(row.parts.dead, count(group.dead_letters));
    row.parts.dead.toggleAttribute("data-some", group.dead_letters > 0);
    setText(row.parts.holds, count(group.holds));
  }

  /** "3 stalled · 17 ok", each of which shows only its groups when it is pressed. */
  function showStates(groups) {
    const counts = groups.length ? countStates(groups) : [];
    if (state && !counts.some(([name]) => name === state)) counts.push([state, 0]);
    const shown = counts.map(([name, number]) => `${count(number)} ${word(name)}`);
    const text = shown.join("\n") + state;
    if (part("states").shown === text) return;
    part("states").shown = text;
    part("states").replaceChildren(...counts.map(([name], place) => el("button", { type: "button", class: "state-button", "data-state": name,
      "aria-pressed": String(name === state), title: name === state ? t("Show all groups") : t("Show only these groups") }, shown[place])));
  }

  part("states").addEventListener("click", (event) => {
    const pressed = event.target.closest("[data-state]")?.dataset.state;
    if (!pressed) return;
    state = pressed === state ? "" : pressed;
    writeQuery({ state });
    if (latest) render(latest);
  });

  function render(view) {
    latest = view;
    if (view.answer === null) return;
    const { groups, hasMore } = view.answer;
    several = showsAllBrokers();
    remember(view.answer);
    const { shown, matching } = choice.of(groups.filter((group) => !state || countedState(group) === state));
    rows.show(shown, (group) => group.group);
    showStates(groups);
    setText(part("count"), `${groups.length ? "" : t("none")}${unavailableText(view.answer)}`);
    showLeftOut(part("left-out"), { shown: shown.length, matching, total: groups.length, all: t("all groups are shown"), hasMore });
    part("empty").hidden = matching > 0;
    setText(part("empty-title"), groups.length ? t("No group matches this filter.") : t("No consumer groups yet."));
  }

  return { render };
}
