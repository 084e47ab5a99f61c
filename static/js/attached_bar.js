/** The line on every page that says which messages the copies contain, and how they are doing. */

import { copyText } from "./pages/attached.js";
import { el } from "./dom.js";
import { request } from "./http.js";
import { Poller } from "./poll.js";

const show = (lines) => document.querySelector('[data-part="attached-brokers"]')?.replaceChildren(...lines);
new Poller({
  ask: () => request("GET", "/attached"),
  onAnswer: ({ brokers, unavailable = [] }) => show([
    ...brokers.map((view) => el("li", { "data-state": view.state }, copyText(view))),
    ...unavailable.map((name) => el("li", { "data-state": "stopped" }, `${name}: its engine does not answer`)),
  ]),
  onError: (error) => show([el("li", { "data-state": "stopped" }, `The state of the copies is not known: ${error.message}`)]),
}).start();
