/** How the copy of a followed broker is doing. Hidden for a broker with a store of its own. */

import { panel, setAttribute, setText } from "../dom.js";
import { UNKNOWN, count, isKnown, shortCount, span } from "../text/format.js";
import { serverNow } from "../clock.js";
import { request } from "../http.js";
import { Poller } from "../poll.js";
import { t } from "../text/translate.js";

const AGAIN_MS = 5_000;
const WORDS = {
  connecting: t("connecting to"),
  following: t("following"),
  waiting: t("waiting to try again:"),
  stopped: t("stopped following"),
};

const bytes = (value) => (isKnown(value) ? `${shortCount(Number(value))} B` : UNKNOWN);

export function attachedPanel() {
  const { part, root } = panel("attached");
  let view = null;
  let problem = "";
  const poller = new Poller({
    ask: () => request("GET", "/attached"),
    onAnswer({ brokers }) {
      [view, problem] = [brokers[0] ?? null, ""];
      draw();
    },
    onError(error) {
      problem = error.message;
      draw();
    },
  });

  /** Asks once whether the broker is attached. Most are not, and are not asked again. */
  async function begin() {
    try {
      const { brokers, unavailable } = await request("GET", "/attached");
      if (brokers.length) poller.start();
      else if (unavailable) window.setTimeout(begin, AGAIN_MS);
    } catch {
      window.setTimeout(begin, AGAIN_MS);
    }
  }

  function figure(name, text) {
    setText(part(name), text);
    part(name).classList.toggle("is-unknown", text === UNKNOWN);
  }

  const ago = (ms) => (isKnown(ms) ? t("{0} ago", span(Math.max(0, serverNow() - Number(ms)))) : UNKNOWN);

  function draw() {
    root.hidden = view === null;
    if (view === null) return;
    const known = problem ? {} : view;
    setText(part("state"), problem ? t("not known at the moment:") : WORDS[view.state]);
    setText(part("source"), view.source || t("its broker"));
    setAttribute(root, "data-state", problem ? "waiting" : view.state);
    figure("lag-bytes", bytes(known.lag_bytes));
    figure("lag-ms", isKnown(known.lag_ms) ? span(Number(known.lag_ms)) : UNKNOWN);
    figure("since", ago(known.since_ms));
    figure("begins", ago(view.min_ms));
    figure("rate", bytes(known.bytes_per_second));
    figure("confirmed", count(view.confirmed));
    figure("confirmed-at", ago(view.confirmed_ms));
    figure("tables", ago(view.tables_ms));
    figure("members", ago(view.members_ms));
    const text = problem || view.problem;
    part("problem").hidden = !text;
    setText(part("problem"), text);
  }

  begin();
  return { render() {} };
}
