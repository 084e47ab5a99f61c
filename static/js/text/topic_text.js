/** Topics in words. Pure. */

import { capitalize } from "./explain_group.js";
import { count, isSystemTopic, plural } from "./format.js";
import { choose, t } from "./translate.js";

/** "read, write": what the bits 4, 2 and 1 of a topic's perm allow. */
export function permText(perm) {
  const words = [[4, t("read")], [2, t("write")], [1, t("inherit")]].filter(([bit]) => perm & bit).map(([, word]) => word);
  return words.join(t(", ")) || t("none");
}

/** "4", or "4 written, 8 read" if the numbers differ. */
export function queuesText({ read_queues: read, write_queues: write }) {
  return read === write ? count(read) : t("{0} written, {1} read", count(write), count(read));
}

/** A topic's perm and queues; at several brokers, which may differ, only how many queues there are. */
export function topicText(configs) {
  const [first, ...others] = configs;
  if (!first) return "";
  if (others.length) return plural(configs.reduce((total, { read_queues: read }) => total + read, 0), "{0} queue at {1} brokers.", "{0} queues at {1} brokers.", count(configs.length));
  return choose(first.read_queues, "{0}; {1} queue.", "{0}; {1} queues.", capitalize(permText(first.perm)), queuesText(first));
}

/** Whether the broker made the topic for itself or for a group. */
export const isOwnTopic = ({ topic, broker, system }) => system || isSystemTopic(topic, broker) || /^%(RETRY|DLQ)%/.test(topic);

/** What a change of a topic means for its messages; empty if it takes nothing away. */
export function changeWarning(before, { read, write, perm }) {
  const warnings = [];
  if (read < before.read_queues) warnings.push(plural(before.read_queues - read, "Messages in {0} queue can no longer be consumed.", "Messages in {0} queues can no longer be consumed."));
  if (write > read) warnings.push(t("Messages will be stored in queues that nobody reads."));
  if (before.perm & 2 && !(perm & 2)) warnings.push(t("Producers will be refused."));
  if (before.perm & 4 && !(perm & 4)) warnings.push(t("Consumers will be refused."));
  return warnings.join(" ");
}

/** The same for a topic at several brokers, all of which are changed. */
export function changeWarnings(configs, change) {
  if (configs.length === 1) return changeWarning(configs[0], change);
  const taken = configs.map((config) => [config.broker, changeWarning(config, change)]).filter(([, warning]) => warning);
  return [t("This sets it at {0} brokers.", count(configs.length)), ...taken.map(([broker, warning]) => t("At {0}: {1}", broker, warning))].join(" ");
}
