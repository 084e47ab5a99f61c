/** What the banner of an outage says. Pure. */

import { t } from "./translate.js";

/**
 * The sentence for an answer of /readyz; empty without an outage. `status` 0: no answer. `since` is the time of the last
 * good answer as a text, or null. With `showsProblem` the page shows the broker's own problem elsewhere.
 */
export function outageText(status, problem, since, showsProblem) {
  const time = since === null ? "" : t(" since {0}", since);
  if (status === 0) return since === null ? t("The web server does not answer.") : t("The web server has not answered{0}.", time);
  if (status !== 503 && status !== 504) return "";
  if (problem?.code === "SERVICE_NOT_AVAILABLE") return showsProblem ? "" : t("Publishing is refused: {0}", problem.detail);
  return since === null ? t("The engine does not answer; publishing is refused.") : t("The engine has not answered{0}; publishing is refused.", time);
}
