/** How many messages wait for another try, in words. Pure. */

import { count } from "./format.js";

/** "3", "the first 50 of 812", or with "at least" while the broker has not counted all. */
export function countText({ waiting, counted, retries }) {
  const total = `${counted ? "" : "at least "}${count(waiting)}`;
  return retries.length && retries.length < Number(waiting) ? `the first ${count(retries.length)} of ${total}` : total;
}
