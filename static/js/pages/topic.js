/** The page of one topic: queues, groups, configuration and route. */

import { keepBroker } from "../brokers.js";
import { dialog } from "../dialogs.js";
import { isAttached } from "./attached.js";
import { KeyedRows, cell, el, panel, setText } from "../dom.js";
import { capitalize, sum } from "../text/explain_group.js";
import { ago, count, plural, rate } from "../text/format.js";
import { request, topicPath } from "../http.js";
import { groupHref, messagesHref } from "../links.js";
import { startPage } from "../page.js";
import { whatIfPanel } from "./what_if.js";
import { TOPIC_CHARTS, historyPanel } from "../panels/history.js";
import { VirtualRows } from "../panels/virtual_rows.js";
import { changeWarnings, permText, topicText } from "../text/topic_text.js";
import { t } from "../text/translate.js";

const MOST_GROUPS = 200;
const topic = document.body.dataset.topic;
const part = (name) => document.querySelector(`[data-part="${name}"]`);
const path = topicPath(topic);
let latest = null;

async function ask() {
  const [{ queues }, { groups, total }] = await Promise.all([request("GET", `${path}/queues`), request("GET", `${path}/groups?limit=${MOST_GROUPS}`)]);
  const brokers = [...new Set(queues.map(({ broker }) => broker))];
  const configs = await Promise.all(brokers.map((broker) => request("GET", `${path}?broker=${encodeURIComponent(broker)}`)));
  const number = (value) => (value === null ? null : Number(value));
  return { groups, groupsTotal: Number(total), configs: configs.map((config) => ({ ...config, messages: Number(config.messages) })),
    queues: queues.map((queue) => ({ ...queue, min_offset: Number(queue.min_offset), max_offset: Number(queue.max_offset),
      last_store_time_ms: number(queue.last_store_time_ms) })) };
}

function figures({ queues, configs, groupsTotal }) {
  return [
    [t("messages"), count(queues.reduce((total, queue) => total + queue.max_offset - queue.min_offset, 0)), t("Messages that are still in the queues")],
    [t("stored/s"), rate(sum(configs, "put_tps")), t("Messages stored per second, over the last minute")],
    [t("queues"), count(queues.length), t("Queues at all brokers")],
    [t("groups"), count(groupsTotal), t("Groups that subscribe to the topic or have offsets in it")],
    [t("held pulls"), count(sum(queues, "holds")), t("Pulls of the topic in the pullRequestTable")],
  ];
}

function queuesPanel() {
  const { part: own } = panel("topic-queues");
  const rows = new VirtualRows(own("scroller"), own("rows"), { create, update });
  let now = null;

  function create({ topic: name, queue_id: id, broker }) {
    const parts = [t("min"), t("max offset"), t("messages"), t("last"), t("holds")].map((label) => el("td", { role: "cell", class: "num", "data-label": label }));
    const row = el("tr", { role: "row", "data-topic-queue": id }, cell("mono queue-name", null, `${name}@${id}`,
      latest.configs.length > 1 ? el("span", { class: "quiet" }, ` ${broker}`) : ""), ...parts);
    row.parts = parts;
    return row;
  }

  function update({ parts: [min, max, messages, last, holds] }, queue) {
    setText(min, count(queue.min_offset));
    setText(max, count(queue.max_offset));
    setText(messages, count(queue.max_offset - queue.min_offset));
    const known = queue.last_store_time_ms !== null && now !== null;
    setText(last, known ? ago(now - queue.last_store_time_ms) : queue.max_offset === 0 && !isAttached ? t("never") : t("unknown"));
    setText(holds, count(queue.holds));
  }

  return {
    render(view) {
      if (!view.answer) return;
      now = view.now;
      rows.show(view.answer.queues, ({ broker, queue_id: id }) => `${broker} ${id}`);
      setText(own("count"), count(view.answer.queues.length));
    },
  };
}

function routePanel() {
  const { part: own } = panel("topic-route");
  const rows = new KeyedRows(own("rows"), {
    create: ({ broker }) => el("div", {}, el("dt", {}, t("at {0}", broker)), el("dd")),
    update: (row, config) => setText(row.querySelector("dd"), t("{0} to write, {1} to read; perm {2} ({3})", plural(config.write_queues, "{0} queue", "{0} queues"), plural(config.read_queues, "{0} queue", "{0} queues"), config.perm, permText(config.perm))),
  });
  return { render: ({ answer }) => answer && rows.show(answer.configs, ({ broker }) => broker) };
}

function groupsPanel() {
  const { part: own } = panel("topic-groups");
  const rows = new KeyedRows(own("rows"), { create: (group) => el("li", {}, el("a", { href: groupHref(group) }, group)), update: () => {} });
  return {
    render({ answer }) {
      if (!answer) return;
      rows.show(answer.groups, (group) => group);
      const left = answer.groupsTotal - answer.groups.length;
      setText(own("count"), `${count(answer.groupsTotal)}${left > 0 ? t("; the first {0} are shown", count(MOST_GROUPS)) : ""}`);
      own("empty").hidden = answer.groups.length > 0;
    },
  };
}

function showMissing(text) {
  setText(part("missing"), text);
  part("missing").hidden = !text;
  part("content").hidden = Boolean(text);
}

const headPanel = {
  render({ answer }) {
    latest = answer;
    for (const button of document.querySelectorAll(".group-actions [data-opens]")) button.disabled = answer === null;
    if (!answer) return;
    showMissing("");
    setText(part("about"), topicText(answer.configs));
  },
};

const read = ({ elements }) => ({ read: Number(elements.read.value), write: Number(elements.write.value), perm: Number(elements.perm.value) });
const change = dialog("change-dialog", {
  opened({ elements }) {
    const [first] = latest.configs;
    elements.read.value = first.read_queues;
    elements.write.value = first.write_queues;
    if (![...elements.perm.options].some(({ value }) => value === String(first.perm))) elements.perm.append(new Option(permText(first.perm), first.perm));
    elements.perm.value = first.perm;
    showWarning();
  },
  canSubmit: (form) => form.checkValidity() && read(form).read >= 1 && read(form).write >= 1,
  async submit(form) {
    const { read: readers, write: writers, perm } = read(form);
    // Only at the brokers that have it: without ?broker= the topic would be created at the others.
    for (const { broker } of latest.configs) {
      await request("PUT", `${path}?broker=${encodeURIComponent(broker)}`, { read_queues: readers, write_queues: writers, perm });
    }
  },
});

function showWarning() {
  setText(change.part("summary"), changeWarnings(latest.configs, read(change.form)));
}

change.form.addEventListener("input", showWarning);
const remove = dialog("delete-dialog", {
  opened() {
    const messages = sum(latest.configs, "messages");
    setText(remove.part("warning"), t("The topic, its queues and the offsets of {0} in it are deleted; {1} can no longer be read. This cannot be undone.", plural(latest.groupsTotal, "{0} group", "{0} groups"), plural(messages, "{0} message", "{0} messages")));
  },
  canSubmit: (form) => form.elements.name.value === topic,
  async submit() {
    await request("DELETE", path);
    location.assign(keepBroker("/topics", location.href));
  },
});
part("messages").href = messagesHref(topic);

startPage({
  ask, figures, panels: [headPanel, queuesPanel(), routePanel(), groupsPanel()],
  onError(error) {
    const missing = error.status === 404 || error.status === 400;
    if (missing) showMissing(capitalize(error.message));
    return missing;
  },
});
whatIfPanel(topic);
historyPanel(TOPIC_CHARTS, `topic=${encodeURIComponent(topic)}`);
