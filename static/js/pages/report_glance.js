/** The overview of the Reports page: a row for each report, with its last result and a button to run it. */

import { el, setAttribute, setText } from "../dom.js";
import { lastResult, stateText } from "../report_window.js";
import { t } from "../text/translate.js";

const ACTIVE = new Set(["queued", "waiting", "running"]);

export function createGlance(report, start) {
  const button = el("button", { type: "button", class: "button small", "aria-label": t("Run {0}", report.title) }, t("Run"));
  button.addEventListener("click", () => start(button, report.name));
  return el("li", { "data-glance": report.name },
    el("a", { href: `#report-${report.name}` }, el("span", { class: "nav-mark", "aria-hidden": "true" }), report.title),
    el("span", { class: "glance-state", "data-part": "state" }),
    el("div", { class: "glance-result" }, el("p", { class: "glance-notes", "data-part": "notes" }), el("span", { "data-part": "figures" })),
    el("span", { class: "glance-about", "data-part": "about" }), button);
}

export function showGlance(row, report, now) {
  const part = (name) => row.querySelector(`[data-part="${name}"]`);
  const [newest] = report.runs;
  const { figures, notes, range, when } = lastResult(report.runs, now);
  setAttribute(row, "data-status", newest?.status ?? "never");
  setText(part("state"), stateText(newest));
  setText(part("notes"), notes);
  setText(part("figures"), figures);
  setText(part("about"), [range, when].filter(Boolean).join(t(", ")));
  row.querySelector("button").hidden = ACTIVE.has(newest?.status);
}
