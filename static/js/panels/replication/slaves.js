/** The slaves that copy the broker's log. Hidden while no port is open for slaves and none is needed. */

import { el, panel, setText } from "../../dom.js";
import { request } from "../../http.js";
import { Poller } from "../../poll.js";
import { knownSlaves, unknownSlaves } from "../../text/slaves_text.js";

const EVERY_MS = 5_000;
const RARELY_MS = 60_000; // most brokers have no slaves, but brokerRole can change while the page is open

export function slavesPanel() {
  const { part, root } = panel("slaves");
  const lines = (texts) => texts.map((text) => el("li", {}, text));
  const poller = new Poller({
    ask: () => request("GET", "/broker"),
    onAnswer(answer) {
      const shown = knownSlaves(answer);
      poller.everyMs = shown ? EVERY_MS : RARELY_MS;
      root.hidden = !shown;
      if (shown) draw(shown);
    },
    onError(error) {
      poller.everyMs = EVERY_MS;
      draw(unknownSlaves(error.message));
    },
  });

  function draw({ promise, slaves, isEmpty, problems }) {
    setText(part("promise"), promise);
    part("slaves").replaceChildren(...lines(slaves));
    part("empty").hidden = !isEmpty;
    part("problems").replaceChildren(...lines(problems));
  }

  poller.start();
  return { render() {} };
}
