/** The header's badge: "2 alerts firing", on every page. */

import { badge } from "./text/alerts_text.js";
import { setAttribute, setText } from "./dom.js";
import { requestOfAll } from "./http.js";

const EVERY_MS = 15_000;
const link = document.querySelector('[data-part="alerts"]');

async function look() {
  let shown = null;
  try {
    shown = badge((await requestOfAll("GET", "/alerts?limit=1")).firing);
  } catch {
    return; // the banner says that the web server does not answer
  }
  link.hidden = shown === null;
  setText(link, shown?.text ?? "");
  setAttribute(link, "data-severity", shown?.severity ?? null);
}

async function watch() {
  if (!document.hidden) await look();
  window.setTimeout(watch, EVERY_MS);
}

document.addEventListener("alerts-changed", look);
watch();
