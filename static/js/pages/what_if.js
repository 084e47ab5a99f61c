/** The panel that replays the last minutes of a topic under other ways to poll. */

import { el, panel, setText } from "../dom.js";
import { requestNumbers, topicPath } from "../http.js";
import { queryOf, readAddress, writeAddress } from "../search_state.js";
import { methodRow, sampleNote, summaryText } from "../text/what_if_text.js";
import { t } from "../text/translate.js";

const LABELS = { requests: t("requests"), empty: t("empty"), p50: "p50", p99: "p99", max: t("max"), delays: t("each delay") };

export function whatIfPanel(topic) {
  const { part } = panel("what-if");
  const form = part("form");
  const button = form.querySelector("button");

  function show(answer) {
    setText(part("summary"), summaryText(answer));
    setText(part("note"), sampleNote(answer));
    part("rows").replaceChildren(...answer.methods.map((totals) => el("tr", { role: "row", "data-method": totals.method },
      ...Object.entries(methodRow(totals, answer.interval_ms)).map(([name, text]) => el("td", { role: "cell", class: name === "method" ? "method-cell" : "num",
        colspan: name === "delays" ? 3 : null, title: name === "delays" ? t("Each delay: of fewer than 20, percentiles say nothing") : null, "data-label": LABELS[name] ?? null }, text)))));
    part("table").hidden = !answer.pulls;
  }

  async function ask() {
    button.disabled = true;
    try {
      show(await requestNumbers(`${topicPath(topic)}/what-if?${new URLSearchParams(new FormData(form))}`));
    } catch (error) {
      setText(part("summary"), error.message);
      setText(part("note"), "");
      part("table").hidden = true;
    }
    part("summary").hidden = false;
    button.disabled = false;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    writeAddress(form);
    ask();
  });
  readAddress(form);
  if (queryOf("minutes") && form.checkValidity()) ask();
}
