/** The state beside the broker's name: whether the page is up to date, and how old its data is if not. */

import { setText } from "../dom.js";
import { seconds, span } from "../text/format.js";

const AGE_SHOWN_AFTER_MS = 2_000;

/** Shows {status, reason, retryAt, localNow, knownAt, first}; `about` is shown while the page is live. */
export function liveState(part, reconnect) {
  part("reconnect").addEventListener("click", reconnect);
  return function show(view, about = "") {
    const word = view.status === "disconnected" && view.first && !view.reason ? "connecting" : view.status;
    setText(part("live"), word);
    setText(part("live-detail"), view.status === "live" ? about : detail(view));
    part("reconnect").hidden = view.status !== "disconnected" || word === "connecting";
    part("sign-in").hidden = !/signed in|token/.test(view.reason);
  };
}

function detail({ status, reason, retryAt, knownAt, localNow }) {
  const age = knownAt === null ? null : localNow - knownAt;
  const known = age !== null && age > AGE_SHOWN_AFTER_MS ? `data is ${span(age)} old` : "";
  const retry = status === "disconnected" && retryAt !== null && reason
    ? `reconnecting in ${seconds(Math.max(0, retryAt - localNow))}` : "";
  return [reason, known, retry].filter(Boolean).join("; ");
}
