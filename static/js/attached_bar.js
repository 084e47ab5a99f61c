/** The line on every page that says which messages the copies contain, and how they are doing. */

import { copyText } from "./pages/attached.js";
import { el } from "./dom.js";
import { request } from "./http.js";
import { Poller } from "./poll.js";
import { t } from "./text/translate.js";

const show = (lines) => document.querySelector('[data-part="attached-brokers"]')?.replaceChildren(...lines);
new Poller({
  ask: () => request("GET", "/attached"),
  onAnswer: ({ brokers, unavailable = [] }) => show([
    ...brokers.map((view) => el("li", { "data-state": view.state }, copyText(view))),
    ...unavailable.map((name) => el("li", { "data-state": "stopped" }, t("{0}: its engine does not answer", name))),
  ]),
  onError: (error) => show([el("li", { "data-state": "stopped" }, t("The state of the copies is not known: {0}", error.message))]),
}).start();
