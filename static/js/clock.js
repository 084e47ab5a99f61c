/** The server's time, as far as its answers have told it: the browser's clock may be wrong by hours. */

const SAME_MS = 5_000; // clocks closer than this count as equal: a Date has whole seconds, and answers take time
let aheadMs = null; // how far the browser's clock is ahead of the server's; null before the first answer

/** Notes the server's time in the Date header of an answer. */
export function noteDate(date, localMs = Date.now()) {
  const ahead = localMs - Date.parse(date ?? "");
  if (!Number.isNaN(ahead)) aheadMs = Math.abs(ahead) < SAME_MS ? 0 : ahead;
}

export const isServerTimeKnown = () => aheadMs !== null;

/** The server's time now, ms; the browser's before the first answer. */
export const serverNow = () => Date.now() - (aheadMs ?? 0);
