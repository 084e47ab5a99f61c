/** The page of one group. */

import { setText } from "./dom.js";
import { UNKNOWN, count, span } from "./format.js";
import { request } from "./http.js";
import { startPage } from "./page.js";
import { sum } from "./explain_group.js";
import { clientEventsPanel } from "./panels/client_events.js";
import { groupQueuesPanel, membersPanel, retriesPanel, subscriptionsPanel, verdictPanel } from "./panels/group.js";

const NUMBERS = ["offset", "pull_offset", "min_offset", "max_offset", "lag", "lag_ms", "polled_ms_ago", "connected_at_ms",
  "last_heartbeat_ms", "suspended_at_ms", "deadline_ms", "pull_from_offset", "next_due_ms", "dead_letters", "dead_letters_from"];
const WORDS = { CLUSTERING: "its members share the queues", BROADCASTING: "each member gets every message",
  CONSUME_FROM_LAST_OFFSET: "new queues from their end", CONSUME_FROM_FIRST_OFFSET: "new queues from their first message",
  CONSUME_FROM_TIMESTAMP: "new queues from a time" };
const MISSING = ". It shows here as soon as somebody consumes for it. RocketMQ's consumers reach a broker only when the "
  + "name server knows a topic of theirs: where the topic does not exist yet, the first message sent to it makes it.";
const group = document.body.dataset.group;
const part = (name) => document.querySelector(`[data-part="${name}"]`);

function numbered(entry) {
  const found = { ...entry };
  for (const name of NUMBERS) if (typeof found[name] === "string") found[name] = Number(found[name]);
  return found;
}

/** The answer with its 64-bit numbers as numbers. */
function read(answer) {
  return { ...answer, lag: Number(answer.lag), members: answer.members.map(numbered), queues: answer.queues.map(numbered),
    holds: answer.holds.map(numbered), retries: answer.retries.map(numbered) };
}

function figures(answer) {
  const oldest = Math.max(0, ...answer.queues.map((queue) => (queue.lag > 0 ? queue.lag_ms ?? 0 : 0)));
  const uncommitted = answer.queues.some((queue) => queue.lag === null);
  return [
    ["members", count(answer.members.length), "Members that are online"],
    ["queues", count(answer.queues.length), "Queues of its topics, the retry topic among them"],
    ["behind", uncommitted && !answer.lag ? UNKNOWN : count(answer.lag), "Messages that are not committed yet"],
    ["oldest waits", answer.lag ? span(oldest) : "–", "Age of the oldest message that is not committed"],
    ["held pulls", count(answer.holds.length), "Its rows of the pullRequestTable"],
  ];
}

/** What the group is, in a line; and whether it is there at all. */
function aboutPanel() {
  return {
    render({ answer }) {
      if (!answer) return;
      showMissing("");
      const about = [WORDS[answer.message_model], WORDS[answer.consume_from_where]].filter(Boolean).join("; ");
      setText(part("about"), about ? `${about[0].toUpperCase()}${about.slice(1)}.` : "");
    },
  };
}

function showMissing(text) {
  setText(part("missing"), text);
  part("missing").hidden = !text;
  part("found").hidden = Boolean(text);
}

startPage({
  ask: async () => read(await request("GET", `/groups/${encodeURIComponent(group)}`)), figures, group,
  panels: [aboutPanel(), verdictPanel(), groupQueuesPanel(), membersPanel(), retriesPanel(), subscriptionsPanel(),
    clientEventsPanel({ link: false })],
  onError(error) {
    const missing = error.status === 404 || error.status === 400;
    if (missing) showMissing(`${error.message}${error.status === 404 ? MISSING : ""}`);
    return missing;
  },
});
