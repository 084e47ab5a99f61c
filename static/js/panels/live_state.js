/** The state beside the broker's name: whether the page is up to date, and how old its data is if not. */

import { setText } from "../dom.js";
import { closeReason } from "../socket.js";
import { seconds, span } from "../text/format.js";
import { t } from "../text/translate.js";
import { word } from "../text/words.js";

const ASKS_FOR_TOKEN = [4401, 4403].map((code) => closeReason({ code }));
const AGE_SHOWN_AFTER_MS = 2_000;

/** Shows {status, reason, retryAt, localNow, knownAt, first}; `about` is shown while the page is live. */
export function liveState(part, reconnect) {
  part("reconnect").addEventListener("click", reconnect);
  return function show(view, about = "") {
    const state = view.status === "disconnected" && view.first && !view.reason ? "connecting" : view.status;
    setText(part("live"), word(state));
    setText(part("live-detail"), view.status === "live" ? about : detail(view));
    part("reconnect").hidden = view.status !== "disconnected" || state === "connecting";
    part("sign-in").hidden = !(/signed in|token/.test(view.reason) || ASKS_FOR_TOKEN.includes(view.reason));
  };
}

function detail({ status, reason, retryAt, knownAt, localNow }) {
  const age = knownAt === null ? null : localNow - knownAt;
  const known = age !== null && age > AGE_SHOWN_AFTER_MS ? t("data is {0} old", span(age)) : "";
  const retry = status === "disconnected" && retryAt !== null && reason
    ? t("reconnecting in {0}", seconds(Math.max(0, retryAt - localNow))) : "";
  return [reason, known, retry].filter(Boolean).join(t("; "));
}
