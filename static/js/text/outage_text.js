/** What the banner of an outage says. Pure. */

/**
 * The sentence for an answer of /readyz; empty without an outage. `status` 0: no answer. `since` is the time of the last
 * good answer as a text, or null. With `showsProblem` the page shows the broker's own problem elsewhere.
 */
export function outageText(status, problem, since, showsProblem) {
  const time = since === null ? "" : ` since ${since}`;
  if (status === 0) return since === null ? "The web server does not answer." : `The web server has not answered${time}.`;
  if (status !== 503 && status !== 504) return "";
  if (problem?.code === "SERVICE_NOT_AVAILABLE") return showsProblem ? "" : `Publishing is refused: ${problem.detail}`;
  return since === null ? "The engine does not answer; publishing is refused." : `The engine has not answered${time}; publishing is refused.`;
}
