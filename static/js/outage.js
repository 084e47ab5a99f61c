/** The red banner of every page while the engine, or the web server, does not answer. It asks /readyz every 3 s. When the
 * banner goes, the document gets the event `outage-over`, for pages that ask for their content once. */

import { withBroker } from "./brokers.js";
import { serverNow } from "./clock.js";
import { setText } from "./dom.js";
import { dateTimeSeconds } from "./text/format.js";
import { outageText } from "./text/outage_text.js";

const EVERY_MS = 3_000;
const PATIENCE_MS = 8_000;
const KEY = "glassmq.answered";

const banner = document.querySelector('[data-part="outage"]');
const own = document.querySelector('[data-part="problem-banner"]'); // the live page shows the broker's problem by itself

/** When the engine answered last, as far as this browser tab has seen; null if it never did. */
function answeredAt() {
  try {
    return Number(sessionStorage.getItem(KEY)) || null;
  } catch {
    return null; // storage may be blocked
  }
}

function remember() {
  try {
    sessionStorage.setItem(KEY, String(serverNow()));
  } catch {
    return; // the banner then names no time
  }
}

async function look() {
  let status = 0;
  let problem = null;
  try {
    const response = await fetch(withBroker("/readyz"), { signal: AbortSignal.timeout(PATIENCE_MS), headers: { Accept: "application/json" } });
    status = response.status;
    problem = status === 200 ? null : await response.json();
  } catch {
    problem = null; // no answer, or none in JSON: the status says which
  }
  const since = problem?.answered_ms ?? answeredAt(); // the web process knows it also if this tab was opened later
  const text = outageText(status, problem, since === null ? null : dateTimeSeconds(since), own !== null);
  if (status === 200) remember();
  const isOver = !banner.hidden && !text;
  setText(banner, text);
  banner.hidden = !text;
  if (isOver) document.dispatchEvent(new Event("outage-over"));
}

async function watch() {
  if (!document.hidden) await look();
  window.setTimeout(watch, EVERY_MS);
}

watch();
