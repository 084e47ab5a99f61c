/** The slaves that copy the broker's log. Hidden while no port is open for slaves and none is needed. */

import { el, panel, setText } from "../../dom.js";
import { request } from "../../http.js";
import { Poller } from "../../poll.js";
import { promiseText, slaveProblems, slaveText } from "../../text/slaves_text.js";

const AGAIN_MS = 5_000;

export function slavesPanel() {
  const { part, root } = panel("slaves");
  const lines = (texts) => texts.map((text) => el("li", {}, text));
  const poller = new Poller({
    ask: () => request("GET", "/broker"),
    onAnswer: ({ replication }) => draw(replication),
    onError(error) {
      part("problems").replaceChildren(...lines([`The slaves are not known at the moment: ${error.message}`]));
      part("slaves").replaceChildren();
    },
  });

  /** Asks once whether the broker may have slaves. Most may not, and are not asked again. */
  async function begin() {
    try {
      const { replication } = await request("GET", "/broker");
      if (replication.ha_listen_port || replication.slaves_needed) poller.start();
    } catch {
      window.setTimeout(begin, AGAIN_MS);
    }
  }

  function draw(replication) {
    const nowMs = Date.now();
    root.hidden = false;
    setText(part("promise"), promiseText(replication));
    part("slaves").replaceChildren(...lines(replication.slaves.map((slave) => slaveText(slave, nowMs))));
    part("empty").hidden = replication.slaves.length > 0;
    part("problems").replaceChildren(...lines(slaveProblems(replication, nowMs)));
  }

  begin();
  return { render() {} };
}
