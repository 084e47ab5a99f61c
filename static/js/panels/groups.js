/** All consumer groups: state, topics, members, lag and held pulls. */

import { KeyedRows, cell, el, panel, setText } from "../dom.js";
import { UNKNOWN, count, plural } from "../format.js";
import { showsAllBrokers } from "../brokers.js";
import { groupState, joinNames, isRetryTopic, lagText, statesText } from "../explain_group.js";
import { groupHref } from "../links.js";
import { unavailableText } from "./clients.js";
import { byText, showLeftOut, tableChoice } from "./sorting.js";

const byName = (a, b) => byText(a.group, b.group);
const SORTS = {
  group: byName,
  state: (a, b) => groupState(a).rank - groupState(b).rank || byName(a, b),
  members: (a, b) => a.members - b.members || byName(a, b),
  lag: (a, b) => (b.lag ?? -1) - (a.lag ?? -1) || byName(a, b),
  holds: (a, b) => a.holds - b.holds || byName(a, b),
};

export function groupsPanel() {
  const { root, part } = panel("groups");
  const rows = new KeyedRows(part("rows"), { create, update });
  const choice = tableChoice({ root, part, sorts: SORTS, first: "state", changed: () => latest && render(latest),
    textOf: (group) => [group.group, ...group.brokers, ...group.topics, groupState(group).word].join(" ") });
  let latest = null;
  let several = false;

  function create(group) {
    const number = (kind, label) => el("td", { role: "cell", class: `num ${kind}`, "data-label": label });
    const parts = { mark: el("span", { class: "chip-mark", "aria-hidden": "true" }), word: el("span", {}),
      topics: cell("quiet topics-cell long", null), members: number("members-cell", "members"),
      lag: number("lag-cell", "lag"), holds: number("", "holds") };
    parts.chip = el("span", { class: "chip" }, parts.mark, parts.word);
    parts.brokers = el("span", { class: "group-brokers quiet" });
    const row = el("tr", { role: "row", "data-group-row": group.group },
      cell("group-cell long", group.group, el("a", { href: groupHref(group.group) }, group.group),
        parts.brokers),
      cell("state-cell", null, parts.chip), parts.topics, parts.members, parts.lag, parts.holds);
    row.parts = parts;
    return row;
  }

  function update(row, group) {
    const { mark, word, tone } = groupState(group);
    const topics = group.topics.filter((topic) => !isRetryTopic(topic)).join(", ") || "–";
    setText(row.parts.brokers, several ? `on ${joinNames(group.brokers)}` : "");
    setText(row.parts.mark, mark);
    setText(row.parts.word, word);
    row.parts.chip.dataset.tone = tone;
    setText(row.parts.topics, topics);
    row.parts.topics.title = topics;
    setText(row.parts.members, group.message_model === "BROADCASTING" ? `${count(group.members)} broadcasting` : count(group.members));
    const lag = lagText(group);
    setText(row.parts.lag, lag);
    row.parts.lag.classList.toggle("is-unknown", lag === UNKNOWN);
    row.parts.lag.title = group.unknown_queues ? `The lag of ${plural(group.unknown_queues, "queue")} is unknown: no offset is committed there.` : "";
    setText(row.parts.holds, count(group.holds));
  }

  function render(view) {
    latest = view;
    if (view.answer === null) return;
    const { groups } = view.answer;
    several = showsAllBrokers();
    const { shown, matching } = choice.of([...groups]);
    rows.show(shown, (group) => group.group);
    setText(part("count"), `${groups.length ? statesText(groups) : "none"}${unavailableText(view.answer)}`);
    showLeftOut(part("left-out"), { shown: shown.length, matching, total: groups.length, what: "group" });
    part("empty").hidden = matching > 0;
    setText(part("empty-title"), groups.length ? "No group matches this filter." : "No consumer groups yet.");
  }

  return { render };
}
