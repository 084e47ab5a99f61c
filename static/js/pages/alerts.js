/** The Alerts page: what fires, rules, channels, silences, and what fired. */

import { channelText, conditionText, evaluationText, firingText, nothingText, sentText, targetText, timeText } from "../text/alerts_text.js";
import { channelDialog, removeDialog, ruleDialog, silenceDialog } from "./alert_forms.js";
import { KeyedRows, el, panel, setText } from "../dom.js";
import { count, isoTime, millis, span, visible } from "../text/format.js";
import { requestOfAll } from "../http.js";
import { groupHref, topicHref } from "../links.js";
import { Poller } from "../poll.js";

const EVERY_MS = 5_000;
const SHOWN = 200;
const ENDED = 50;
const OLDER = 100;
const MOST_ENDED = 1_000;
const page = document.querySelector("main");
const state = { alerts: [], rules: [], channels: [], silences: [], ended: ENDED };

const ruleOf = (number) => state.rules.find((rule) => rule.id === number);
const td = (kind, ...children) => el("td", { role: "cell", class: kind }, ...children);
const labelled = (label, ...children) => el("td", { role: "cell", "data-label": label }, ...children);
const severity = (name) => el("span", { class: "severity", "data-severity": name }, name);
const time = (ms) => el("time", { datetime: isoTime(ms), title: isoTime(ms) }, timeText(ms));

function button(text, label, act) {
  const node = el("button", { type: "button", class: "button small", "aria-label": label }, text);
  node.addEventListener("click", act);
  return node;
}

/** The subject of an alert, with links to its group and topic. */
function about({ broker, group, topic }) {
  if (!broker) return [el("a", { href: "/reports" }, "reports")];
  if (!group) return [visible(broker)];
  const place = [el("a", { href: groupHref(group) }, visible(group))];
  if (topic) place.push(" in ", el("a", { href: topicHref(topic) }, visible(topic)));
  return [...place, el("span", { class: "quiet" }, ` ${visible(broker)}`)];
}

/** A panel whose rows are made anew when their item has changed. */
function table(name, cells) {
  const { part, root } = panel(name);
  const rows = new KeyedRows(part("rows"), {
    create: () => el("tr", { role: "row" }),
    update(row, item) {
      const text = JSON.stringify(item);
      if (row.item === text) return;
      row.item = text;
      row.toggleAttribute("data-off", item.enabled === false);
      const focused = row.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
      row.replaceChildren(...cells(item));
      if (focused) row.querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
    },
  });
  return {
    part, root,
    show(items) {
      rows.show(items, (item) => item.id);
      part("empty").hidden = items.length > 0;
      if (part("count")) setText(part("count"), count(items.length));
    },
  };
}

/** Runs a change. An error is shown on the page. */
async function act(work) {
  try {
    await work();
    showProblem("");
  } catch (error) {
    showProblem(error.message);
  }
  poller.soon(0);
  document.dispatchEvent(new Event("alerts-changed"));
}

function showProblem(text) {
  const banner = page.querySelector('[data-part="page-problem"]');
  setText(banner, text);
  banner.hidden = !text;
}

function onSwitch(path, item, label) {
  const box = el("input", { type: "checkbox", "aria-label": label });
  box.checked = item.enabled;
  box.addEventListener("change", () => act(async () => {
    try {
      await requestOfAll("PATCH", `${path}/${item.id}`, { enabled: box.checked });
    } catch (error) {
      box.checked = item.enabled;
      throw error;
    }
  }));
  return box;
}

const changed = () => {
  poller.soon(0);
  document.dispatchEvent(new Event("alerts-changed"));
};
const rules = ruleDialog({ channels: () => state.channels, changed });
const channels = channelDialog({ changed });
const silences = silenceDialog({ rules: () => state.rules, changed });
const remove = removeDialog({ changed });

const firing = table("firing", (alert) => [
  td("severity-cell", severity(alert.severity)),
  td("name-cell", visible(alert.rule_name)),
  td("about-cell", ...about(alert)),
  td("text-cell", visible(alert.text)),
  labelled("fires since", time(alert.fired_ms)),
  td("quiet", sentText(alert, ruleOf(alert.rule))),
  td("actions", button("Silence …", `Silence ${alert.rule_name} for ${alert.group || alert.broker}`,
    () => silences.open({ rule: alert.rule, group: alert.group || "*" }))),
]);
const ruleRows = table("rules", (rule) => [
  td("on-cell", onSwitch("/alerts/rules", rule, `Rule ${rule.name} is on`)),
  td("name-cell", visible(rule.name)),
  td("text-cell", visible(conditionText(rule))),
  td("severity-cell", severity(rule.severity)),
  td("quiet", rule.channelNames.join(", ") || "none, shown here only"),
  td("actions", button("Change …", `Change the rule ${rule.name}`, () => rules.open(ruleOf(rule.id))),
    button("Delete …", `Delete the rule ${rule.name}`, () => remove.open(`/alerts/rules/${rule.id}`, `Delete the rule ${rule.name}`,
      "Its alerts end without a message. They stay in the history."))),
]);
const channelRows = table("channels", (channel) => {
  const outcome = td("text-cell quiet", channelText(channel));
  outcome.classList.toggle("failed", channel.enabled && channel.error !== "");
  return [
    td("on-cell", onSwitch("/alerts/channels", channel, `Channel ${channel.name} is on`)),
    td("name-cell", visible(channel.name)),
    td("", channel.kind),
    td("about-cell", visible(targetText(channel)), channel.has_secret ? el("span", { class: "quiet" }, " with a secret") : ""),
    outcome,
    td("actions", button("Send a test message", `Send a test message to ${channel.name}`, ({ currentTarget }) => test(channel, currentTarget, outcome)),
      button("Change …", `Change the channel ${channel.name}`, () => channels.open(channel)),
      button("Delete …", `Delete the channel ${channel.name}`, () => remove.open(`/alerts/channels/${channel.id}`,
        `Delete the channel ${channel.name}`, "Rules that use it send nothing to it any more."))),
  ];
});
const silenceRows = table("silences", (silence) => [
  td("name-cell", visible(silence.ruleName)),
  labelled("group", visible(silence.group)),
  labelled("from", time(silence.from_ms)),
  labelled("until", time(silence.to_ms)),
  td("text-cell", visible(silence.comment)),
  td("actions", button("End", `End the silence of ${silence.group}`, () => act(() => requestOfAll("DELETE", `/alerts/silences/${silence.id}`)))),
]);
const history = table("history", (alert) => [
  td("severity-cell", severity(alert.severity)),
  td("name-cell", visible(alert.rule_name)),
  td("about-cell", ...about(alert)),
  td("text-cell", visible(alert.text)),
  labelled("fired", time(alert.fired_ms)),
  labelled("for", alert.resolved_ms - alert.fired_ms < 1000 ? millis(Math.max(0, alert.resolved_ms - alert.fired_ms)) : span(alert.resolved_ms - alert.fired_ms)),
]);

async function test(channel, node, outcome) {
  node.disabled = true;
  setText(outcome, "sending …");
  outcome.classList.remove("failed", "done");
  try {
    await requestOfAll("POST", `/alerts/channels/${channel.id}/test`, {});
    setText(outcome, "the test message was accepted");
    outcome.classList.add("done");
  } catch (error) {
    setText(outcome, error.message);
    outcome.classList.add("failed");
  } finally {
    node.disabled = false;
  }
}

panel("rules").part("add").addEventListener("click", () => rules.open(null));
panel("channels").part("add").addEventListener("click", () => channels.open(null));
panel("silences").part("add").addEventListener("click", () => silences.open({ rule: null, group: "*" }));
history.part("older").addEventListener("click", () => {
  state.ended = Math.min(state.ended + OLDER, MOST_ENDED);
  poller.soon(0);
});

async function ask() {
  const paths = [`/alerts?limit=${SHOWN}`, "/alerts/rules", "/alerts/channels", "/alerts/silences", `/alerts?state=resolved&limit=${state.ended}`];
  return Promise.all(paths.map((path) => requestOfAll("GET", path)));
}

function show([now, ofRules, ofChannels, ofSilences, ended]) {
  Object.assign(state, { alerts: now.alerts, rules: ofRules.rules, channels: ofChannels.channels, silences: ofSilences.silences });
  const names = new Map(state.channels.map(({ id, name }) => [id, name]));
  firing.show(state.alerts);
  const total = now.firing.critical + now.firing.warning + now.firing.info;
  setText(firing.part("count"), firingText(now.firing, now.evaluated_ms));
  setText(firing.part("empty-title"), nothingText(now));
  firing.part("more").hidden = total <= state.alerts.length;
  setText(firing.part("more"), `The newest ${count(state.alerts.length)} of ${count(total)}.`);
  ruleRows.show(state.rules.map((rule) => ({ ...rule, channelNames: rule.channels.map((number) => names.get(number)).filter(Boolean) })));
  channelRows.show(state.channels);
  silenceRows.show(state.silences.map((silence) => ({ ...silence, ruleName: silence.rule === null ? "every rule" : ruleOf(silence.rule)?.name ?? "a deleted rule" })));
  history.show(ended.alerts);
  history.part("older").hidden = ended.next === undefined || state.ended >= MOST_ENDED;
  history.part("more").hidden = ended.next === undefined || state.ended < MOST_ENDED;
  setText(history.part("more"), `The newest ${count(MOST_ENDED)}. GET /api/v1/alerts?state=resolved has the others.`);
  const late = evaluationText(now.evaluated_ms, now.now_ms);
  const notes = [...(late ? [late] : []), ...now.problems];
  const list = page.querySelector('[data-part="notes"]');
  list.hidden = !notes.length;
  list.replaceChildren(...notes.map((note) => el("li", {}, visible(note))));
}

const poller = new Poller({
  ask, everyMs: EVERY_MS,
  onAnswer(answer) {
    show(answer);
    if (page.dataset.failed) showProblem("");
    delete page.dataset.failed;
  },
  onError(error) {
    page.dataset.failed = "yes";
    showProblem(error.message);
  },
});
poller.start();
