/** What a client answered when it was asked to consume one message. Pure. */

import { clientKind } from "./explain_group.js";
import { count, millis, plural, visible } from "./format.js";
import { t } from "./translate.js";

const RESULTS = {
  CR_SUCCESS: ["good", t("the listener consumed the message")],
  CR_COMMIT: ["good", t("the listener consumed the message and committed")],
  CR_LATER: ["warn", t("the listener wants the message again later")],
  CR_ROLLBACK: ["warn", t("the listener rolled back")],
  CR_RETURN_NULL: ["bad", t("the listener returned null, which counts as a failure")],
  CR_THROW_EXCEPTION: ["bad", t("the listener failed with an error")],
};

/** An answer of `consume-directly`: {tone, sentence, remark}. */
export function consumedText({ client_id: client, result, remark, spent_ms: spent }) {
  const [tone, what] = RESULTS[result] ?? ["none", t("the result is not known")];
  return { tone, sentence: t("{0} answered {1} after {2}: {3}.", visible(client), result, millis(spent), what), remark: visible(remark) };
}

/** The group whose dead letters or retries are in this topic; empty for another topic. */
export const groupOfTopic = (topic) => /^%(?:DLQ|RETRY)%(.+)$/.exec(topic)?.[1] ?? "";

/** Members that can be asked, and a sentence about the others. `clients` are entries of `/clients?group=`. */
export function askable(clients, group) {
  const members = clients.filter(({ consumer_groups: groups }) => groups.includes(group));
  const able = members.filter(({ protocol }) => protocol === "remoting");
  const others = members.length - able.length;
  const note = !members.length ? t("No client of {0} is online.", group)
    : others ? plural(others, "{0} member is connected by WebSocket and cannot be asked.", "{0} members are connected by WebSocket and cannot be asked.") : "";
  return { able, note };
}

/** A client in the list: "10.0.4.17@8812 (Java 5.4.0)". */
export const clientOption = (client) => `${visible(client.client_id)} (${clientKind(client)})`;

/** The groups that may be chosen for a message, with a sentence if there is none. */
export function groupsNote(groups, topic) {
  return groups.length ? "" : t("No group subscribes to {0}, or has offsets in it.", visible(topic));
}

export const messageLine = ({ message_id: id, topic, queue_id: queue, queue_offset: offset }) =>
  t("{0} in {1}@{2} at offset {3}.", visible(id), topic, queue, count(offset));
