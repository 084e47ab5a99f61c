/** Rules, alerts and channels in words. Pure. */

import { count, dateTimeSeconds, plural, span } from "./format.js";
import { ALERTS } from "./server/alerts.js";
import { serverText } from "./server/texts.js";
import { t } from "./translate.js";
import { word } from "./words.js";

export const KINDS = {
  group_state: { label: t("state of a group"), unit: "", topic: false, group: true },
  group_verdict: { label: t("verdict on a group"), unit: "", topic: false, group: true },
  lag: { label: t("lag"), unit: t("messages"), topic: true, group: true },
  oldest: { label: t("age of the oldest waiting message"), unit: t("seconds"), topic: true, group: true },
  dead_letters: { label: t("new dead letters"), unit: t("messages"), topic: false, group: true },
  missed_arrivals: { label: t("missed arrivals"), unit: t("pulls"), topic: false, group: false },
  disk_used: { label: t("disk use"), unit: t("percent"), topic: false, group: false },
  report: { label: t("figure of a report"), unit: t("its unit, % for a share"), topic: false, group: false },
  engine_down: { label: t("engine does not answer"), unit: "", topic: false, group: false },
};
/** The errors and warnings about a group, as the server's catalogue has them. */
export const VERDICTS = [
  "pulls_refused", "no_member", "may_not_consume", "every_message_fails", "heartbeat_late", "listener_blocked",
  "not_acknowledged", "no_permits", "not_pulling", "locked_by_another", "stands_still", "subscriptions_disagree",
  "filter_rejects_all", "topic_missing", "topic_not_subscribed", "pulled_by_another", "offset_deleted",
  "offset_beyond_end", "falling_behind", "some_messages_fail",
];
export const VERDICT_SEVERITIES = ["error", "warning"];
export const STATES = ["stalled", "stopped", "falling behind", "unknown", "catching up", "ok"];
const FACTORS = { oldest: 1000 };

/** The threshold of a rule as a person enters it; the API has ms for ages. */
export const shownThreshold = ({ what, threshold }) => threshold / (FACTORS[what] ?? 1);
export const storedThreshold = (what, entered) => Math.round(entered * (FACTORS[what] ?? 1));

/** "is stalled or stopped", "lag above 1,000 messages", for the rule's groups and topics and its time. */
export function conditionText(rule) {
  const scope = [];
  if (KINDS[rule.what].group && rule.group !== "*") scope.push(t("group {0}", rule.group));
  if (KINDS[rule.what].topic && rule.topic !== "*") scope.push(t("topic {0}", rule.topic));
  const held = rule.for_s ? t(" for {0}", span(rule.for_s * 1000)) : "";
  return `${valueText(rule)}${held}${scope.length ? ` · ${scope.join(t(", "))}` : ""}`;
}

function valueText(rule) {
  const { what, threshold } = rule;
  if (what === "group_state") return t("a group is {0}", rule.states.map(word).join(t(" or ")));
  if (what === "group_verdict") return verdictRule(rule);
  if (what === "lag") return plural(threshold, "more than {0} message wait", "more than {0} messages wait");
  if (what === "oldest") return t("a message waits longer than {0}", span(threshold));
  if (what === "dead_letters") return threshold ? plural(threshold, "more than {0} new dead letter", "more than {0} new dead letters") : t("a new dead letter");
  if (what === "missed_arrivals") return threshold ? plural(threshold, "more than {0} missed arrival", "more than {0} missed arrivals") : t("a missed arrival");
  if (what === "disk_used") return t("the disk is more than {0} % full", threshold);
  if (what === "report") return (rule.below ? t("{0} of the report {1} is below {2}", rule.figure, rule.report, withUnit(threshold, rule.figure_kind)) : t("{0} of the report {1} is above {2}", rule.figure, rule.report, withUnit(threshold, rule.figure_kind)));
  return t("the engine does not answer");
}

function verdictRule({ verdicts, verdict_severities: severities }) {
  const worse = severities.length === 1 ? word(severities[0]) : t("error or warning");
  if (!verdicts.length) return t("a group has a verdict of severity {0}", worse);
  const named = verdicts.map(word).join(t(" or "));
  return severities.length === 1 ? t("a group has the verdict: {0} ({1})", named, worse) : t("a group has the verdict: {0}", named);
}

/** An alert's value. After the state or the verdict in a few words comes the verdict's sentence, in the server's words. */
export function alertText(text) {
  const [, head, sentence] = /^([a-z0-9 ]+): ([^]+)$/.exec(text) ?? [];
  return head && ALERTS.includes(head) ? t("{0}: {1}", serverText(head), sentence) : serverText(text);
}

const withUnit = (number, kind) => `${count(number)}${UNITS[kind] ? ` ${UNITS[kind]}` : ""}`;

const UNITS = { bytes: t("bytes"), ms: "ms", us: "µs", share: "%" };

/** The headlines of a report's newest finished run that is about everything, as choices: [["most_lag", "Messages behind"]].
 * `chosen` is among them even if no run has it. */
export function figureChoices(report, chosen) {
  const isWhole = ({ status, parameters }) => status === "done" && !parameters.topic && !parameters.consumer_group && !parameters.broker;
  const headlines = report?.runs.find(isWhole)?.headlines ?? [];
  const choices = headlines.map(({ name, label, kind }) => [name, `${serverText(label)}${UNITS[kind] ? ` (${UNITS[kind]})` : ""}`]);
  return !chosen || choices.some(([name]) => name === chosen) ? choices : [[chosen, chosen], ...choices];
}

/** What becomes of an alert's messages: "sent 14:03:22", "silenced", "no channel". */
export function sentText(alert, rule) {
  if (alert.silenced) return t("silenced");
  if (alert.notified_ms !== null) return t("sent {0}", timeText(alert.notified_ms));
  if (!rule) return t("not sent");
  return rule.channels.length ? t("not sent yet") : t("no channel");
}

/** The state of a channel: "sent 14:03:22", or why the last try failed. */
export function channelText(channel) {
  if (!channel.enabled) return t("off");
  if (channel.error) return t("failed {0}: {1}", timeText(channel.failed_ms), serverText(channel.error));
  return channel.sent_ms === null ? t("no alert sent yet") : t("sent {0}", timeText(channel.sent_ms));
}

export function targetText(channel) {
  return channel.kind === "email" ? channel.recipients.join(", ") : channel.host;
}

/** Without milliseconds, which nobody needs here. */
export function timeText(ms) {
  return dateTimeSeconds(ms);
}

/** The badge in the header: {text, severity}; null when nothing fires. */
export function badge({ critical, warning, info }) {
  const total = critical + warning + info;
  if (!total) return null;
  return { text: plural(total, "{0} alert firing", "{0} alerts firing"), severity: critical ? "critical" : "warning" };
}

/** Whether the rules are being evaluated, as a sentence for the page; empty if they are. */
export function evaluationText(evaluatedMs, nowMs, lateMs = 180_000) {
  if (evaluatedMs === null) return t("The rules have not been evaluated yet. Only manage.py broker evaluates them.");
  if (nowMs - evaluatedMs < lateMs) return "";
  return t("The rules were last evaluated {0} ago, so what is shown may be old.", span(nowMs - evaluatedMs));
}

/** What the page says while no alert fires: nothing fires only if all was looked at, a short time ago. */
export function nothingText({ evaluated_ms: evaluatedMs, now_ms: nowMs, problems }) {
  if (evaluationText(evaluatedMs, nowMs)) return t("It is not known whether anything fires.");
  return problems.length ? t("Nothing fires, as far as is known.") : t("Nothing fires.");
}

/** "2 critical · 1 warning", or when the rules were evaluated last: the reason to believe that nothing fires. */
export function firingText({ critical, warning, info }, evaluatedMs) {
  const parts = [[t("critical"), critical], [t("warning"), warning], [t("info"), info]].filter(([, number]) => number);
  return parts.length ? parts.map(([name, number]) => `${count(number)} ${name}`).join(" · ") : evaluatedMs === null ? "" : t("evaluated {0}", timeText(evaluatedMs));
}
