/** The Topics page. */

import { keepBroker, showsAllBrokers } from "../brokers.js";
import { dialog } from "../dialogs.js";
import { cell, el, panel, setText } from "../dom.js";
import { count, rate } from "../text/format.js";
import { sum } from "../text/explain_group.js";
import { request, requestPages, topicPath } from "../http.js";
import { messagesHref, topicHref } from "../links.js";
import { startPage } from "../page.js";
import { unavailableText } from "../panels/clients.js";
import { byText, showLeftOut, tableChoice } from "../panels/sorting.js";
import { VirtualRows } from "../panels/virtual_rows.js";
import { keepChecked } from "../search_state.js";
import { isOwnTopic, permText, queuesText } from "../text/topic_text.js";
import { t } from "../text/translate.js";

const MOST_TOPICS = 20_000;
const byName = (a, b) => byText(a.topic, b.topic) || byText(a.broker, b.broker);
const byNumber = (name) => (a, b) => b[name] - a[name] || byName(a, b);
const SORTS = { topic: byName, queues: byNumber("write_queues"), messages: byNumber("messages"), rate: byNumber("put_tps") };

function topicsPanel() {
  const { root, part } = panel("topics");
  const rows = new VirtualRows(part("scroller"), part("rows"), { create, update });
  const choice = tableChoice({ root, part, sorts: SORTS, first: "topic", most: MOST_TOPICS, textOf: ({ topic, broker }) => `${topic} ${broker}`,
    changed: () => latest && render(latest) });
  let latest = null;

  function create({ topic, broker }) {
    const number = (label) => el("td", { role: "cell", class: "num", "data-label": label });
    const parts = { queues: number(t("queues")), perm: cell("quiet", null), messages: number(t("messages")), rate: number(t("msgs/s")) };
    const row = el("tr", { role: "row", "data-topic-row": topic },
      cell("mono long topic-cell", topic, el("a", { href: topicHref(topic) }, topic), showsAllBrokers() ? el("span", { class: "quiet" }, ` ${broker}`) : ""),
      parts.queues, parts.perm, parts.messages, parts.rate, cell("more-cell", null, el("a", { href: messagesHref(topic) }, t("messages"))));
    row.parts = parts;
    return row;
  }

  function update({ parts }, topic) {
    setText(parts.queues, queuesText(topic));
    setText(parts.perm, permText(topic.perm));
    setText(parts.messages, count(topic.messages));
    setText(parts.rate, rate(topic.put_tps));
  }

  function render(view) {
    latest = view;
    if (view.answer === null) return;
    const visible = view.answer.topics.filter((topic) => part("system").checked || !isOwnTopic(topic));
    const { shown, matching } = choice.of(visible);
    rows.show(shown, ({ topic, broker }) => `${topic} ${broker}`);
    setText(part("count"), `${count(visible.length)}${unavailableText(view.answer)}`);
    showLeftOut(part("left-out"), { shown: shown.length, matching, total: visible.length, all: t("all topics are shown"), hasMore: view.answer.hasMore });
    part("empty").hidden = matching > 0;
    setText(part("empty-title"), visible.length ? t("No topic matches this filter.") : t("No topics yet."));
  }

  keepChecked(part("system"), "system");
  part("system").addEventListener("change", () => latest && render(latest));
  return { render };
}

function parse(answer) {
  return { ...answer, topics: answer.topics.map((topic) => ({ ...topic, messages: Number(topic.messages) })) };
}

function figures({ topics, hasMore }) {
  const own = topics.filter((topic) => !isOwnTopic(topic));
  return [
    [t("topics"), `${hasMore ? "≥ " : ""}${count(own.length)}`, t("Topics of applications")],
    [t("messages"), count(sum(own, "messages")), t("Messages that are still in their queues")],
    [t("stored/s"), rate(sum(own, "put_tps")), t("Messages stored per second, over the last minute")],
  ];
}

async function isThere(topic) {
  try {
    await request("GET", topicPath(topic));
    return true;
  } catch (error) {
    if (error.status === 404) return false;
    throw error;
  }
}

dialog("create-dialog", {
  canSubmit: ({ elements }) => elements.topic.value.trim() !== "" && Number(elements.queues.value) >= 1,
  async submit({ elements }) {
    const topic = elements.topic.value.trim();
    if (await isThere(topic)) throw new Error(t("Topic {0} exists already; change it on its page.", topic));
    await request("PUT", topicPath(topic), { queues: Number(elements.queues.value), perm: Number(elements.perm.value) });
    location.assign(keepBroker(topicHref(topic), location.href));
  },
});
startPage({ ask: async () => parse(await requestPages("/topics", "topics", MOST_TOPICS)), figures, panels: [topicsPanel()] });
