/** The panels of one group: diagnosis, queues, members, subscriptions, retries. */

import { KeyedRows, cell, el, flash, panel, queueName, setAttribute, setText } from "../dom.js";
import { count, isKnown, plural, span } from "../text/format.js";
import { clientKind, explainQueue, groupState, heartbeat, isFiltered, isPolledByAnother, queueState, isRetryTopic, hasProblem, verdictLine, waitingText, worstOf } from "../text/explain_group.js";
import { queueKey } from "../reducer.js";
import { clientHref, deadLettersHref } from "../links.js";
import { keepChecked } from "../search_state.js";
import { MOST_ROWS, showLeftOut } from "./sorting.js";
import { t } from "../text/translate.js";
import { verdictAdvice, verdictSentence } from "../text/verdict_texts.js";

/** Verdicts on which the clients know more, and what they are asked. */
const ASKED = { listener_blocked: t("Show its threads"), stands_still: t("Ask the members") };

/** The group's state and the server's verdicts, the worst first. `ask(client)` asks clients. */
export function verdictPanel(ask) {
  const { part } = panel("verdict");
  const rows = new KeyedRows(part("rows"), { create, update });

  function create() {
    const row = el("li", {}, el("p", { class: "verdict-sentence" }), el("p", { class: "verdict-advice" }));
    [row.sentence, row.advice] = row.children;
    row.button = el("button", { type: "button", class: "button small", hidden: true });
    row.button.addEventListener("click", () => ask(row.client));
    row.append(row.button);
    return row;
  }

  function update(row, { verdict, group, now }) {
    const { tone, text, advice } = verdictLine({ ...verdict, sentence: verdictSentence(verdict, group, now), advice: verdictAdvice(verdict) });
    row.dataset.tone = tone;
    row.dataset.verdict = verdict.id;
    setText(row.sentence, text);
    setText(row.advice, advice);
    row.advice.hidden = !advice;
    row.client = verdict.evidence?.client_id ?? "";
    row.button.hidden = !ASKED[verdict.id];
    setText(row.button, ASKED[verdict.id] ?? "");
  }

  return {
    render({ answer, now }) {
      if (!answer) return;
      const { mark, word, tone } = groupState({ ...answer.why, ...worstOf(answer.why.verdicts) });
      part("state").dataset.tone = tone;
      part("state").dataset.state = answer.why.state;
      setText(part("state-mark"), mark);
      setText(part("state-word"), word);
      rows.show(answer.why.verdicts.map((verdict, place) => ({ verdict, place, group: answer.why.group, now })), ({ place }) => place);
    },
  };
}

const holdKey = ({ broker, topic, queue_id: id }) => `${broker} ${queueKey(topic, id)}`;

/** The group's queues: owner, state, offsets and lag. */
export function groupQueuesPanel() {
  const { part } = panel("group-queues");
  const rows = new KeyedRows(part("rows"), { create, update });
  let latest = null;
  let several = false;
  let held = new Map();

  function create(queue) {
    const parts = {
      owner: cell("owner-cell", null), mark: el("span", { class: "chip-mark", "aria-hidden": "true" }), word: el("span", {}),
      why: el("p", { class: "why" }), offset: el("span", { class: "pull-offset" }), end: el("span", { class: "queue-end" }),
      lag: el("td", { role: "cell", class: "num lag-cell", "data-label": t("lag") }),
      age: el("td", { role: "cell", class: "num quiet oldest-cell", "data-label": t("oldest") }),
    };
    parts.chip = el("span", { class: "chip" }, parts.mark, parts.word);
    const where = queueKey(queue.topic, queue.queue_id);
    const row = el("tr", { role: "row", "data-group-queue": where },
      cell("mono queue-cell long", where, queueName(queue.topic, queue.queue_id), several ? el("span", { class: "quiet" }, ` ${queue.broker}`) : ""),
      parts.owner, el("td", { role: "cell", class: "state-cell" }, parts.chip, parts.why),
      el("td", { role: "cell", class: "num mono offsets-cell" }, parts.offset, " / ", parts.end), parts.lag, parts.age);
    row.parts = parts;
    return row;
  }

  function update(row, queue) {
    const { parts } = row;
    const { mark, word, tone } = queueState(queue);
    row.queue = queue;
    row.dataset.state = queue.state;
    row.toggleAttribute("data-problem", hasProblem(queue));
    setText(parts.mark, mark);
    setText(parts.word, word);
    parts.chip.dataset.tone = tone;
    showOwner(parts.owner, queue);
    setText(parts.offset, isKnown(queue.offset) ? count(queue.offset) : t("none"));
    if (parts.end.textContent && parts.end.textContent !== count(queue.max_offset)) flash(parts.end, "--warn-soft", "--warn");
    setText(parts.end, count(queue.max_offset));
    setText(parts.lag, count(queue.lag));
    parts.lag.classList.toggle("is-unknown", queue.lag === null);
    setText(parts.age, queue.lag === 0 ? "–" : isKnown(queue.lag_ms) ? span(queue.lag_ms) : t("unknown"));
    showWhy(row);
  }

  function showOwner(node, queue) {
    const shown = JSON.stringify([queue.assigned_to, isPolledByAnother(queue) && queue.polled_by, queue.locked_by]);
    if (node.shown === shown) return;
    node.shown = shown;
    setAttribute(node, "title", queue.assigned_to || null);
    node.replaceChildren(queue.assigned_to ? el("a", { class: "mono", href: clientHref(queue.assigned_to) }, queue.assigned_to)
      : el("span", { class: "quiet" }, withoutOwner(queue)));
    if (queue.locked_by) node.append(el("span", { class: "lock", title: t("The member that holds the queue's lock for orderly consumption") },
      queue.locked_by === queue.assigned_to ? t("locked") : t("locked by {0}", queue.locked_by)));
  }

  function withoutOwner({ state, polled_by: by }) {
    if (!by) return t("none");
    return state === "unassigned" ? t("none; last pull by {0}", by) : t("none; polled by {0}", by);
  }

  function showWhy(row) {
    const { queue } = row;
    const hold = held.get(holdKey(queue));
    const heldMs = !hold || latest.now === null ? null
      : Math.max(0, Math.min(latest.now, hold.deadline_ms) - hold.suspended_at_ms); // the answer may be 2 s old
    setText(row.parts.why, explainQueue(queue, heldMs, isFiltered(latest.answer, queue.topic)));
  }

  function render(view) {
    latest = view;
    if (!view.answer) return;
    const { queues, holds } = view.answer;
    several = new Set(queues.map((queue) => queue.broker)).size > 1;
    held = new Map(holds.map((hold) => [holdKey(hold), hold]).reverse());
    const matching = part("problems-only").checked ? queues.filter(hasProblem) : queues;
    const sorted = [...matching].sort((a, b) => isRetryTopic(a.topic) - isRetryTopic(b.topic));
    rows.show(sorted.slice(0, MOST_ROWS), holdKey);
    const problems = queues.filter(hasProblem).length;
    const all = view.answer.queues_total > queues.length ? t(" of {0}", count(view.answer.queues_total)) : "";
    setText(part("count"), `${count(queues.length)}${all}${problems ? t("; {0} with problems", count(problems)) : ""}`);
    showLeftOut(part("left-out"), { shown: Math.min(MOST_ROWS, matching.length), matching: matching.length, total: queues.length, all: t("all queues are shown") });
    part("empty").hidden = matching.length > 0;
    setText(part("empty-title"), queues.length ? t("No queue has a problem.") : t("The group has no queues."));
  }

  keepChecked(part("problems-only"), "problems");
  part("problems-only").addEventListener("change", () => latest && render(latest));
  return {
    render,
    tick(view) {
      latest = view;
      if (!view.answer) return; // the group was deleted
      for (const row of rows.rows.values()) showWhy(row);
    },
  };
}

/** The group's members, and how many queues each has. */
export function membersPanel() {
  const { part } = panel("members");
  const rows = new KeyedRows(part("rows"), { create, update });
  let latest = null;

  function create(member) {
    const parts = { kind: cell("kind-cell", null), has: el("td", { role: "cell", class: "has-cell", "data-label": t("queues") }),
      holds: el("td", { role: "cell", class: "num holds-cell", "data-label": t("holds") }),
      heartbeat: el("td", { role: "cell", class: "num heartbeat-cell", "data-label": t("heartbeat") }) };
    const row = el("tr", { role: "row", "data-member": member.client_id },
      cell("mono client-cell long", member.client_id, el("a", { href: clientHref(member.client_id) }, member.client_id)),
      parts.kind, cell("mono quiet remote-cell", member.remote, member.remote || "–"), parts.has, parts.holds, parts.heartbeat);
    row.parts = parts;
    return row;
  }

  function update(row, { member, queues }) {
    row.member = member;
    setText(row.parts.kind, clientKind(member));
    setText(row.parts.has, queues === null ? t("all queues") : queues.length ? plural(queues.length, "{0} queue", "{0} queues") : t("no queue"));
    setAttribute(row.parts.has, "title", (queues ?? []).map((queue) => queueKey(queue.topic, queue.queue_id)).join(", "));
    row.toggleAttribute("data-idle", queues !== null && !queues.length);
    setText(row.parts.holds, count(member.holds));
    showTimes(row);
  }

  function showTimes(row) {
    const { text, tone } = heartbeat(row.member, latest.now);
    setText(row.parts.heartbeat, text);
    row.parts.heartbeat.dataset.tone = tone;
  }

  function render(view) {
    latest = view;
    if (!view.answer) return;
    const { members, assignment, message_model: model } = view.answer;
    const shares = new Map(assignment.map(({ client_id: id, queues }) => [id, queues]));
    const shown = members.slice(0, MOST_ROWS).map((member) => ({ ...member, member,
      queues: model === "BROADCASTING" ? null : shares.get(member.client_id) ?? [] }));
    rows.show(shown, (member) => member.client_id);
    setText(part("count"), t("{0} online", count(members.length)));
    showLeftOut(part("left-out"), { shown: shown.length, matching: members.length, total: members.length, all: t("all members are shown") });
    part("empty").hidden = members.length > 0;
  }

  return {
    render,
    tick(view) {
      latest = view;
      for (const row of rows.rows.values()) showTimes(row);
    },
  };
}

/** The group's subscriptions: topic and expression. */
export function subscriptionsPanel() {
  const { part } = panel("subscriptions");
  const rows = new KeyedRows(part("rows"), {
    create: ({ topic }) => el("div", {}, el("dt", { class: "mono" }, topic), el("dd", { class: "mono" })),
    update: (row, entry) => setText(row.querySelector("dd"), subscriptionText(entry)),
  });
  return {
    render({ answer }) {
      if (!answer) return;
      rows.show(answer.subscriptions, ({ topic }) => topic);
      part("empty").hidden = answer.subscriptions.length > 0;
      part("disagree").hidden = !answer.why.verdicts.some(({ id }) => id === "subscriptions_disagree");
    },
  };
}

/** Messages that the group could not consume: those that wait for a retry, and dead letters. */
export function retriesPanel() {
  const { part } = panel("retries");
  const dead = new KeyedRows(part("dead-letters"), { create: (entry) => el("li", {}, el("span", {}),
    el("a", { href: deadLettersHref(entry) }, t("show"))), update });
  let several = false;

  function update(row, entry) {
    setText(row.querySelector("span"), `${count(entry.dead_letters)}${several ? t(" at {0}", entry.broker) : ""} `);
    row.querySelector("a").href = deadLettersHref(entry);
  }

  function showWaiting({ answer, now }) {
    if (!answer) return;
    setText(part("waiting"), waitingText(answer.retries, now));
    const first = answer.retries.find(({ waiting }) => waiting > 0);
    part("waiting-link").hidden = !first;
    setText(part("waiting-link"), first ? t("show") : "");
    if (first) setAttribute(part("waiting-link"), "href", `${deadLettersHref(first)}#waiting`);
  }

  return {
    render(view) {
      if (!view.answer) return;
      const { retries } = view.answer;
      several = retries.length > 1;
      const entries = retries.filter((entry) => entry.dead_letters > 0);
      dead.show(entries, ({ broker }) => broker);
      part("none").hidden = entries.length > 0;
      showWaiting(view);
    },
    tick: showWaiting,
  };
}

function subscriptionText({ topic, sub_string: text, expression_type: type }) {
  if (isRetryTopic(topic)) return t("messages that the group sent back");
  const expression = text || "*";
  return type === "TAG" ? (expression === "*" ? t("* (all messages)") : expression) : t("{0}: {1}", type, expression);
}
