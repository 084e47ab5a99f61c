/** Addresses of the pages of groups, clients and messages. Pure. */

export const groupHref = (group) => `/groups/${encodeURIComponent(group)}`;
export const clientHref = (client) => `/connections?client=${encodeURIComponent(client)}`;
/** The page of a group's dead letters at one broker; the argument is an entry of `retries` of `/groups/{group}`. */
export const deadLettersHref = ({ broker, dead_letter_topic: topic }) =>
  `/groups/${encodeURIComponent(topic.replace("%DLQ%", ""))}/dead-letters?broker=${encodeURIComponent(broker)}`;

const PLAIN_ID = /^[0-9A-Za-z_-]{1,255}$/;

/** The page of a message. An id with other characters than RocketMQ's clients write is replaced by the message's offset
 * id, if it is known. `topic` makes the search for the id short; it may be empty. */
export function messageHref({ message_id: id, offset_message_id: offsetId = "", topic = "" }) {
  const name = PLAIN_ID.test(id) ? id : offsetId || id;
  return `/messages/${encodeURIComponent(name)}${topic ? `?topic=${encodeURIComponent(topic)}` : ""}`;
}

/** The page of a held pull, which each broker numbers by itself. */
export const holdHref = (id, broker = "") => `/holds/${id}${broker ? `?broker=${encodeURIComponent(broker)}` : ""}`;

/** The search for the messages of a topic. */
export const messagesHref = (topic) => `/messages?topic=${encodeURIComponent(topic)}`;

export const topicHref = (topic) => `/topics/${encodeURIComponent(topic)}`;
