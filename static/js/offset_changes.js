/** A reset of offsets in words. Pure. */

import { count, plural } from "./format.js";

/** The body of a reset from the fields of its form; throws an Error that says what is missing. */
export function resetBody({ topic, to, time, offset, queue }) {
  const body = { topic };
  if (queue) body.queue_id = Number(queue);
  if (to === "time") {
    const at = new Date(time).getTime();
    if (Number.isNaN(at)) throw new Error("Enter a date and a time.");
    return { ...body, to: at };
  }
  if (to !== "offset") return { ...body, to };
  if (!/^\d{1,15}$/.test(offset.trim())) throw new Error("Enter an offset: a whole number, 0 or more.");
  return { ...body, offset: Number(offset) };
}

/** "orders@0: 40 → 10, 30 again". */
export function changeText({ topic, queue_id: queue, before, after }) {
  const where = `${topic}@${queue}: `;
  if (before === null) return `${where}no offset → ${count(after)}`;
  const moved = Number(after) - Number(before);
  return `${where}${count(before)} → ${count(after)}, ${moved < 0 ? `${count(-moved)} again` : `${count(moved)} skipped`}`;
}

/** "30 messages again, 2 messages skipped, in 3 queues." */
export function changesText(changes) {
  if (!changes.length) return "Nothing changes: the group is there already.";
  const known = changes.filter(({ before }) => before !== null).map(({ before, after }) => Number(after) - Number(before));
  const again = known.filter((moved) => moved < 0).reduce((sum, moved) => sum - moved, 0);
  const skipped = known.filter((moved) => moved > 0).reduce((sum, moved) => sum + moved, 0);
  const parts = [again && `${plural(again, "message")} again`, skipped && `${plural(skipped, "message")} skipped`].filter(Boolean);
  return `${parts.join(", ") || "New offsets"} in ${plural(changes.length, "queue")}.`;
}
