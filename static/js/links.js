/** Addresses of the pages of groups and clients. Pure. */

export const groupHref = (group) => `/groups/${encodeURIComponent(group)}`;
export const clientHref = (client) => `/connections?client=${encodeURIComponent(client)}`;
/** The API address of the first messages of a dead letter queue; the argument is an entry of `retries` of `/groups/{group}`. */
export const deadLettersHref = ({ broker, dead_letter_topic: topic, dead_letters_from: offset }) =>
  `/api/v1/topics/${encodeURIComponent(topic)}/queues/0/messages?offset=${offset}&limit=32&wait_ms=0&broker=${encodeURIComponent(broker)}`;
