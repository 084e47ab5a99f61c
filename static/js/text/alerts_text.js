/** Rules, alerts and channels in words. Pure. */

import { count, dateTime, plural, span } from "./format.js";

export const KINDS = {
  group_state: { label: "state of a group", unit: "", topic: false, group: true },
  lag: { label: "lag", unit: "messages", topic: true, group: true },
  oldest: { label: "age of the oldest waiting message", unit: "seconds", topic: true, group: true },
  dead_letters: { label: "new dead letters", unit: "messages", topic: false, group: true },
  missed_arrivals: { label: "missed arrivals", unit: "pulls", topic: false, group: false },
  disk_used: { label: "disk use", unit: "percent", topic: false, group: false },
  report: { label: "figure of a report", unit: "its unit, % for a share", topic: false, group: false },
  engine_down: { label: "engine does not answer", unit: "", topic: false, group: false },
};
export const STATES = ["stalled", "stopped", "falling behind", "unknown", "catching up", "ok"];
const FACTORS = { oldest: 1000 };

/** The threshold of a rule as a person enters it; the API has ms for ages. */
export const shownThreshold = ({ what, threshold }) => threshold / (FACTORS[what] ?? 1);
export const storedThreshold = (what, entered) => Math.round(entered * (FACTORS[what] ?? 1));

/** "is stalled or stopped", "lag above 1,000 messages", for the rule's groups and topics and its time. */
export function conditionText(rule) {
  const scope = [];
  if (KINDS[rule.what].group && rule.group !== "*") scope.push(`group ${rule.group}`);
  if (KINDS[rule.what].topic && rule.topic !== "*") scope.push(`topic ${rule.topic}`);
  const held = rule.for_s ? ` for ${span(rule.for_s * 1000)}` : "";
  return `${valueText(rule)}${held}${scope.length ? ` · ${scope.join(", ")}` : ""}`;
}

function valueText(rule) {
  const { what, threshold } = rule;
  if (what === "group_state") return `a group is ${rule.states.join(" or ")}`;
  if (what === "lag") return `more than ${plural(threshold, "message")} wait`;
  if (what === "oldest") return `a message waits longer than ${span(threshold)}`;
  if (what === "dead_letters") return threshold ? `more than ${plural(threshold, "new dead letter")}` : "a new dead letter";
  if (what === "missed_arrivals") return threshold ? `more than ${plural(threshold, "missed arrival")}` : "a missed arrival";
  if (what === "disk_used") return `the disk is more than ${threshold} % full`;
  if (what === "report") return `${rule.figure} of the report ${rule.report} is ${rule.below ? "below" : "above"} ${count(threshold)}`;
  return "the engine does not answer";
}

const UNITS = { bytes: "bytes", ms: "ms", us: "µs", share: "%" };

/** The headlines of a report's newest finished run that is about everything, as choices: [["most_lag", "Messages behind"]].
 * `chosen` is among them even if no run has it. */
export function figureChoices(report, chosen) {
  const isWhole = ({ status, parameters }) => status === "done" && !parameters.topic && !parameters.consumer_group && !parameters.broker;
  const headlines = report?.runs.find(isWhole)?.headlines ?? [];
  const choices = headlines.map(({ name, label, kind }) => [name, `${label}${UNITS[kind] ? ` (${UNITS[kind]})` : ""}`]);
  return !chosen || choices.some(([name]) => name === chosen) ? choices : [[chosen, chosen], ...choices];
}

/** What becomes of an alert's messages: "sent 14:03:22", "silenced", "no channel". */
export function sentText(alert, rule) {
  if (alert.silenced) return "silenced";
  if (alert.notified_ms !== null) return `sent ${timeText(alert.notified_ms)}`;
  if (!rule) return "not sent";
  return rule.channels.length ? "not sent yet" : "no channel";
}

/** The state of a channel: "sent 14:03:22", or why the last try failed. */
export function channelText(channel) {
  if (!channel.enabled) return "off";
  if (channel.error) return `failed ${timeText(channel.failed_ms)}: ${channel.error}`;
  return channel.sent_ms === null ? "no alert sent yet" : `sent ${timeText(channel.sent_ms)}`;
}

export function targetText(channel) {
  return channel.kind === "email" ? channel.recipients.join(", ") : channel.host;
}

/** Without milliseconds, which nobody needs here. */
export function timeText(ms) {
  return dateTime(ms).replace(/\.\d+$/, "");
}

/** The badge in the header: {text, severity}; null when nothing fires. */
export function badge({ critical, warning, info }) {
  const total = critical + warning + info;
  if (!total) return null;
  return { text: `${plural(total, "alert")} firing`, severity: critical ? "critical" : "warning" };
}

/** Whether the rules are being evaluated, as a sentence for the page; empty if they are. */
export function evaluationText(evaluatedMs, nowMs, lateMs = 180_000) {
  if (evaluatedMs === null) return "The rules have not been evaluated yet. Only manage.py broker evaluates them.";
  if (nowMs - evaluatedMs < lateMs) return "";
  return `The rules were last evaluated ${span(nowMs - evaluatedMs)} ago, so what is shown may be old.`;
}

/** What the page says while no alert fires: nothing fires only if all was looked at, a short time ago. */
export function nothingText({ evaluated_ms: evaluatedMs, now_ms: nowMs, problems }) {
  if (evaluationText(evaluatedMs, nowMs)) return "It is not known whether anything fires.";
  return problems.length ? "Nothing fires, as far as is known." : "Nothing fires.";
}

/** "2 critical · 1 warning", or when the rules were evaluated last: the reason to believe that nothing fires. */
export function firingText({ critical, warning, info }, evaluatedMs) {
  const parts = [["critical", critical], ["warning", warning], ["info", info]].filter(([, number]) => number);
  return parts.length ? parts.map(([name, number]) => `${count(number)} ${name}`).join(" · ") : evaluatedMs === null ? "" : `evaluated ${timeText(evaluatedMs)}`;
}
