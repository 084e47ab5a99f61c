/** Attached brokers: copies of other brokers, whose clients' pulls, wake-ups and heartbeats are not known. */

import { UNKNOWN, dateTimeSeconds, isKnown, shortCount, span } from "../text/format.js";
import { t } from "../text/translate.js";

/** Whether the brokers of this installation are attached. */
export const isAttached = globalThis.document?.documentElement.hasAttribute("data-attached") ?? false;

const WORDS = { connecting: t("connecting"), following: t("following"), waiting: t("not connected"), stopped: t("stopped") };

/** One broker in words: `broker-a: messages since 13:36:50, following, 0 B behind`. */
export function copyText(view) {
  const begin = isKnown(view.min_ms) ? t("messages since {0}", dateTimeSeconds(Number(view.min_ms))) : t("no messages yet");
  const lag = isKnown(view.lag_bytes) ? t("{0} B behind", shortCount(Number(view.lag_bytes))) : t("how far behind is unknown");
  const time = isKnown(view.lag_ms) && Number(view.lag_ms) > 0 ? ` (${span(Number(view.lag_ms))})` : "";
  const words = [begin, WORDS[view.state] ?? UNKNOWN, `${lag}${time}`].join(t(", "));
  return t("{0}: {1}", view.broker, view.problem ? `${words} (${view.problem})` : words);
}

/** The charts without what is unknown for an attached broker. What its groups committed stands for what was delivered. */
export function knownCharts(charts, ofBroker) {
  const isUnknown = ({ metric }) => ["holds", "woken_tps", "wake_p99_us"].includes(metric) || (ofBroker && metric === "delivered_tps");
  const named = (one) => (one.metric === "delivered_tps" ? { ...one, name: t("committed") } : one);
  return charts.map((chart) => ({ ...chart, lines: chart.lines.filter((one) => !isUnknown(one)).map(named) }))
    .filter(({ lines }) => lines.length);
}
