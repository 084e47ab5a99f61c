/** A reset of offsets in words. Pure. */

import { isRecentlyPolled, joinNames } from "./explain_group.js";
import { count, plural } from "./format.js";
import { choose, t } from "./translate.js";

/** The body of a reset from the fields of its form; throws an Error that says what is missing. */
export function resetBody({ topic, to, time, offset, queue }) {
  const body = { topic };
  if (queue) body.queue_id = Number(queue);
  if (to === "time") {
    const at = new Date(time).getTime();
    if (Number.isNaN(at)) throw new Error(t("Enter a date and a time."));
    return { ...body, to: at };
  }
  if (to !== "offset") return { ...body, to };
  if (!/^\d{1,15}$/.test(offset.trim())) throw new Error(t("Enter an offset: a whole number, 0 or more."));
  return { ...body, offset: Number(offset) };
}

/** "orders@0: 40 → 10, 30 again". */
export function changeText({ topic, queue_id: queue, before, after }) {
  const where = `${topic}@${queue}: `;
  if (before === null) return t("{0}no offset → {1}", where, count(after));
  const moved = Number(after) - Number(before);
  return `${where}${count(before)} → ${count(after)}, ${moved < 0 ? t("{0} again", count(-moved)) : t("{0} skipped", count(moved))}`;
}

/** "30 messages again, 2 messages skipped, in 3 queues." */
export function changesText(changes) {
  if (!changes.length) return t("Nothing changes: the group is there already.");
  const known = changes.filter(({ before }) => before !== null).map(({ before, after }) => Number(after) - Number(before));
  const again = known.filter((moved) => moved < 0).reduce((sum, moved) => sum - moved, 0);
  const skipped = known.filter((moved) => moved > 0).reduce((sum, moved) => sum + moved, 0);
  const parts = [again && plural(again, "{0} message again", "{0} messages again"), skipped && plural(skipped, "{0} message skipped", "{0} messages skipped")].filter(Boolean);
  return t("{0} in {1}.", parts.join(t(", ")) || t("New offsets"), plural(changes.length, "{0} queue", "{0} queues"));
}

/**
 * Who continues from the new offsets: {text, isUndone}. Clients that pull without being members do not hear of a reset;
 * their next commit overwrites it. `members`, `queues` and `holds` are those of the group.
 */
export function continuesText({ members, queues, holds }) {
  const ids = new Set(members.map(({ client_id: id }) => id));
  const pullers = [...queues.filter(isRecentlyPolled).map(({ polled_by: id }) => id), ...holds.map(({ client_id: id }) => id || t("a client"))];
  const strangers = [...new Set(pullers)].filter((id) => id && !ids.has(id)).sort();
  const own = members.length ? plural(members.length, "One member is online and will continue from the new offsets.", "{0} members are online and will continue from the new offsets.") : "";
  if (!strangers.length) return { text: own || t("No member is online; the next one begins at the new offsets."), isUndone: false };
  const text = choose(strangers.length, "{0} pulls without being a member; its next commit overwrites the reset. Stop it first.",
    "{0} pull without being members; their next commit overwrites the reset. Stop them first.", joinNames(strangers));
  return { text: [text, own].filter(Boolean).join(" "), isUndone: true };
}
