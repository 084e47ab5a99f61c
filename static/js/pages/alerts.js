/** The Alerts page: what fires, rules, channels, silences, and what fired. */

import { alertText, channelText, conditionText, evaluationText, firingText, nothingText, sentText, targetText, timeText } from "../text/alerts_text.js";
import { channelDialog, removeDialog, ruleDialog, silenceDialog } from "./alert_forms.js";
import { KeyedRows, el, panel, setText } from "../dom.js";
import { count, isoTime, millis, span, visible } from "../text/format.js";
import { requestOfAll } from "../http.js";
import { groupHref, topicHref } from "../links.js";
import { Poller } from "../poll.js";
import { serverText } from "../text/server/texts.js";
import { t } from "../text/translate.js";
import { word } from "../text/words.js";

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
const severity = (name) => el("span", { class: "severity", "data-severity": name }, word(name));
const time = (ms) => el("time", { datetime: isoTime(ms), title: isoTime(ms) }, timeText(ms));

function button(text, label, act) {
  const node = el("button", { type: "button", class: "button small", "aria-label": label }, text);
  node.addEventListener("click", act);
  return node;
}

/** The subject of an alert, with links to its group and topic. */
function about({ broker, group, topic }) {
  if (!broker) return [el("a", { href: "/reports" }, t("reports"))];
  if (!group) return [visible(broker)];
  const place = [el("a", { href: groupHref(group) }, visible(group))];
  if (topic) place.push(t(" in "), el("a", { href: topicHref(topic) }, visible(topic)));
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
  td("text-cell", visible(alertText(alert.text))),
  labelled(t("fires since"), time(alert.fired_ms)),
  td("quiet", sentText(alert, ruleOf(alert.rule))),
  td("actions", button(t("Silence …"), t("Silence {0} for {1}", alert.rule_name, alert.group || alert.broker),
    () => silences.open({ rule: alert.rule, group: alert.group || "*" }))),
]);
const ruleRows = table("rules", (rule) => [
  td("on-cell", onSwitch("/alerts/rules", rule, t("Rule {0} is on", rule.name))),
  td("name-cell", visible(rule.name)),
  td("text-cell", visible(conditionText(rule))),
  td("severity-cell", severity(rule.severity)),
  td("quiet", rule.channelNames.join(t(", ")) || t("none, shown here only")),
  td("actions", button(t("Change …"), t("Change the rule {0}", rule.name), () => rules.open(ruleOf(rule.id))),
    button(t("Delete …"), t("Delete the rule {0}", rule.name), () => remove.open(`/alerts/rules/${rule.id}`, t("Delete the rule {0}", rule.name),
      t("Its alerts end without a message. They stay in the history.")))),
]);
const channelRows = table("channels", (channel) => {
  const outcome = td("text-cell quiet", channelText(channel));
  outcome.classList.toggle("failed", channel.enabled && channel.error !== "");
  return [
    td("on-cell", onSwitch("/alerts/channels", channel, t("Channel {0} is on", channel.name))),
    td("name-cell", visible(channel.name)),
    td("", word(channel.kind)),
    td("about-cell", visible(targetText(channel)), channel.has_secret ? el("span", { class: "quiet" }, t(" with a secret")) : ""),
    outcome,
    td("actions", button(t("Send a test message"), t("Send a test message to {0}", channel.name), ({ currentTarget }) => test(channel, currentTarget, outcome)),
      button(t("Change …"), t("Change the channel {0}", channel.name), () => channels.open(channel)),
      button(t("Delete …"), t("Delete the channel {0}", channel.name), () => remove.open(`/alerts/channels/${channel.id}`,
        t("Delete the channel {0}", channel.name), t("Rules that use it send nothing to it any more.")))),
  ];
});
const silenceRows = table("silences", (silence) => [
  td("name-cell", visible(silence.ruleName)),
  labelled(t("group"), visible(silence.group)),
  labelled(t("from"), time(silence.from_ms)),
  labelled(t("until"), time(silence.to_ms)),
  td("text-cell", visible(silence.comment)),
  td("actions", button(t("End"), t("End the silence of {0}", silence.group), () => act(() => requestOfAll("DELETE", `/alerts/silences/${silence.id}`)))),
]);
const history = table("history", (alert) => [
  td("severity-cell", severity(alert.severity)),
  td("name-cell", visible(alert.rule_name)),
  td("about-cell", ...about(alert)),
  td("text-cell", visible(alertText(alert.text))),
  labelled(t("fired"), time(alert.fired_ms)),
  labelled(t("for"), alert.resolved_ms - alert.fired_ms < 1000 ? millis(Math.max(0, alert.resolved_ms - alert.fired_ms)) : span(alert.resolved_ms - alert.fired_ms)),
]);

async function test(channel, node, outcome) {
  node.disabled = true;
  setText(outcome, t("sending …"));
  outcome.classList.remove("failed", "done");
  try {
    await requestOfAll("POST", `/alerts/channels/${channel.id}/test`, {});
    setText(outcome, t("the test message was accepted"));
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
  setText(firing.part("more"), t("The newest {0} of {1}.", count(state.alerts.length), count(total)));
  ruleRows.show(state.rules.map((rule) => ({ ...rule, channelNames: rule.channels.map((number) => names.get(number)).filter(Boolean) })));
  channelRows.show(state.channels);
  silenceRows.show(state.silences.map((silence) => ({ ...silence, ruleName: silence.rule === null ? t("every rule") : ruleOf(silence.rule)?.name ?? t("a deleted rule") })));
  history.show(ended.alerts);
  history.part("older").hidden = ended.next === undefined || state.ended >= MOST_ENDED;
  history.part("more").hidden = ended.next === undefined || state.ended < MOST_ENDED;
  setText(history.part("more"), t("The newest {0}. GET /api/v1/alerts?state=resolved has the others.", count(MOST_ENDED)));
  const late = evaluationText(now.evaluated_ms, now.now_ms);
  const notes = [...(late ? [late] : []), ...now.problems.map(serverText)];
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
