/** How many messages wait for another try, in words. Pure. */

import { count } from "./format.js";
import { t } from "./translate.js";

/** "3", "the first 50 of 812", or with "at least" while the broker has not counted all. */
export function countText({ waiting, counted, retries }) {
  const total = `${counted ? "" : t("at least ")}${count(waiting)}`;
  return retries.length && retries.length < Number(waiting) ? t("the first {0} of {1}", count(retries.length), total) : total;
}
