/** The page of one consumer group. */

import { setText } from "../dom.js";
import { UNKNOWN, count, isKnown, span } from "../text/format.js";
import { request } from "../http.js";
import { startPage } from "../page.js";
import { capitalize, sum } from "../text/explain_group.js";
import { GROUP_CHARTS, historyPanel } from "../panels/history.js";
import { clientEventsPanel } from "../panels/client_events.js";
import { groupActions } from "../panels/group_actions.js";
import { runningInfo } from "../panels/dialogs/running_info.js";
import { groupQueuesPanel, membersPanel, retriesPanel, subscriptionsPanel, verdictPanel } from "../panels/group.js";
import { t } from "../text/translate.js";

const NUMBERS = ["offset", "pull_offset", "min_offset", "max_offset", "lag", "lag_ms", "polled_ms_ago", "connected_at_ms",
  "last_heartbeat_ms", "suspended_at_ms", "deadline_ms", "pull_from_offset", "next_due_ms", "dead_letters", "dead_letters_from"];
const SETTINGS = { CLUSTERING: t("clustering: each queue has one consumer"), BROADCASTING: t("broadcasting: each member receives every message"),
  CONSUME_FROM_LAST_OFFSET: t("new queues are consumed from their end"), CONSUME_FROM_FIRST_OFFSET: t("new queues are consumed from their first message"),
  CONSUME_FROM_TIMESTAMP: t("new queues are consumed from a timestamp") };
const MISSING = t(". It appears here as soon as a client consumes for it. RocketMQ consumers connect to a broker only when the name server has a route for one of their topics; if the topic does not exist yet, create it or send a first message to it.");
const group = document.body.dataset.group;
const part = (name) => document.querySelector(`[data-part="${name}"]`);

function withNumbers(entry) {
  const copy = { ...entry };
  for (const name of NUMBERS) if (typeof copy[name] === "string") copy[name] = Number(copy[name]);
  return copy;
}

/** The answer with its 64-bit integers as numbers. */
function parse(answer) {
  return { ...answer, lag: Number(answer.lag), members: answer.members.map(withNumbers), queues: answer.queues.map(withNumbers),
    holds: answer.holds.map(withNumbers), retries: answer.retries.map(withNumbers) };
}

function figures(answer) {
  const ages = answer.queues.filter((queue) => queue.lag > 0 && isKnown(queue.lag_ms)).map((queue) => queue.lag_ms);
  const partial = answer.queues.some((queue) => !isKnown(queue.lag));
  const least = partial ? "≥ " : "";
  const oldest = ages.length ? `${least}${span(Math.max(...ages))}` : answer.lag || partial ? UNKNOWN : "–";
  return [
    [t("members"), count(answer.members.length), t("Members online")],
    [t("queues"), count(answer.queues_total), t("Queues of its topics, including the retry topic")],
    [t("lag"), partial && !answer.lag ? UNKNOWN : `${least}${count(answer.lag)}`, t("Messages that are not committed; ≥ if some queue has no committed offset")],
    [t("oldest message"), oldest, t("Age of the oldest message that is not committed")],
    [t("held pulls"), count(answer.holds.length), t("Pulls of the group in the pullRequestTable")],
  ];
}

/** The group's settings in a line, or the message that the group does not exist. */
function aboutPanel() {
  return {
    render({ answer }) {
      if (!answer) return;
      showMissing("");
      const about = [SETTINGS[answer.message_model], SETTINGS[answer.consume_from_where]].filter(Boolean).join(t("; "));
      setText(part("about"), about ? t("{0}.", about[0].toUpperCase() + about.slice(1)) : "");
    },
  };
}

function showMissing(text) {
  setText(part("missing"), text);
  part("missing").hidden = !text;
  part("content").hidden = Boolean(text);
}

async function ask() {
  const path = `/groups/${encodeURIComponent(group)}`;
  const [detail, why] = await Promise.all([request("GET", path), request("GET", `${path}/verdicts`)]);
  return parse({ ...detail, why });
}

startPage({
  ask, figures, group,
  panels: [aboutPanel(), groupActions(group), verdictPanel(runningInfo(group)), groupQueuesPanel(), membersPanel(), retriesPanel(), subscriptionsPanel(),
    clientEventsPanel({ link: false })],
  onError(error) {
    const missing = error.status === 404 || error.status === 400;
    if (missing) showMissing(`${capitalize(error.message)}${error.status === 404 ? MISSING : ""}`);
    return missing;
  },
});
historyPanel(GROUP_CHARTS, `group=${encodeURIComponent(group)}`);
