/** What clients answered about themselves, in words. */

import { UNKNOWN, count, isKnown, plural, span } from "./format.js";
import { t } from "./translate.js";

const number = (value) => (isKnown(value) ? Number(value) : null);
const ago = (now, ms) => (isKnown(ms) ? t("{0} ago", span(Math.max(0, now - Number(ms)))) : UNKNOWN);

/**
 * The clients of all brokers, those with messages first: {id, problem, stacks, about, queues: [{place, cached, handed,
 * consumed, pulled}]}. `handed` messages are not committed. A client that one broker could ask has no problem.
 */
export function clientsOf({ brokers }, now) {
  const several = brokers.length > 1;
  const clients = new Map();
  for (const broker of brokers) {
    const pulled = new Map(broker.queues.map((queue) => [`${queue.topic}@${queue.queue_id}`, queue]));
    for (const { client_id: id, problem, properties, queues, stacks } of broker.clients) {
      const client = clients.get(id) ?? { id, problem: "", stacks: null, about: "", queues: [], answered: false };
      clients.set(id, client);
      client.answered ||= !problem;
      client.problem = client.answered ? "" : problem;
      client.stacks ??= stacks;
      client.about ||= aboutText(properties, now);
      for (const queue of queues) {
        const name = `${queue.topic}@${queue.queue_id}`;
        client.queues.push({ place: several ? t("{0} at {1}", name, broker.broker) : name, cached: number(queue.cached), locked: queue.locked,
          handed: handedOut(pulled.get(name)), consumed: ago(now, queue.consumed_ms), pulled: ago(now, queue.pulled_ms) });
      }
    }
  }
  const waiting = (client) => client.queues.reduce((sum, { cached }) => sum + (cached ?? 0), 0);
  for (const client of clients.values()) client.queues.sort((a, b) => (b.cached ?? 0) - (a.cached ?? 0) || (a.place < b.place ? -1 : 1));
  return [...clients.values()].sort((a, b) => waiting(b) - waiting(a) || (a.id < b.id ? -1 : 1));
}

function handedOut(queue) {
  if (!queue || !isKnown(queue.offset) || !isKnown(queue.pull_offset)) return null;
  return Math.max(0, Number(queue.pull_offset) - Number(queue.offset));
}

function aboutText(properties, now) {
  const { PROP_CLIENT_VERSION: version, PROP_CONSUMER_START_TIMESTAMP: started, PROP_THREADPOOL_CORE_SIZE: threads } = properties;
  const parts = [version && version.replace(/^V/, "").replaceAll("_", "."), started && t("started {0}", ago(now, started)),
    threads && Number(threads) > 0 && plural(Number(threads), "{0} thread", "{0} threads")];
  return parts.filter(Boolean).join(t(", "));
}

/** The stacks of a Java client with those of the threads that call the listener first. */
export function stacksText(stacks) {
  const threads = stacks.split(/\n\s*\n/).filter((thread) => thread.trim());
  const calls = (thread) => Number(/^\s*ConsumeMessage/.test(thread));
  return threads.sort((a, b) => calls(b) - calls(a)).join("\n\n");
}

/** What the answer says about itself: whom it asked, and what it leaves out. */
export function askedText({ brokers, problems }) {
  const members = brokers.map(({ members: all, clients, broker, source }) => {
    if (!all) return t("{0} ({1}) has no member of the group", broker, source);
    const whom = clients.length < all ? t("{0} of {1} members", count(clients.length), count(all)) : plural(all, "{0} member", "{0} members");
    return t("{0} ({1}) asked {2}", broker, source, whom);
  });
  const away = Object.entries(problems ?? {}).map(([broker, problem]) => t("{0}: {1}", broker, problem));
  return [...members, ...away].join(t("; "));
}
