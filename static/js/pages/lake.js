/** The lake panel of the Reports page: its state, its schedule, and "Fill now". */

import { el, setAttribute, setText } from "../dom.js";
import { ago, count } from "../text/format.js";
import { serverNow } from "../clock.js";
import { request } from "../http.js";
import { whenText } from "../cron.js";
import { currentFill, hasFinished, lakeFigures, lakeNotes } from "../text/explain_lake.js";
import { t } from "../text/translate.js";

const BUSY_MS = 1_000;
const CALM_MS = 10_000;
const PATIENCE_MS = 120_000;

const root = document.querySelector('[data-panel="lake"]');
const part = (name) => root.querySelector(`[data-part="${name}"]`);
const box = part("enabled");
const form = part("schedule");
let timer = null;
let requested = null;
let busy = false;

function showNote(text, failed = false) {
  const note = part("note");
  setText(note, text);
  note.hidden = !text;
  note.toggleAttribute("data-failed", failed);
}

async function act(control, action) {
  control.disabled = true;
  try {
    await action();
  } catch (error) {
    requested = null;
    showNote(error.message, true);
  } finally {
    control.disabled = false;
  }
  await refresh();
}

function showFill(lake) {
  const fill = currentFill(lake);
  part("fill").hidden = lake.under_way;
  part("cancel").hidden = !lake.under_way;
  part("fill-state").hidden = !fill;
  if (!fill) return;
  setAttribute(part("status"), "data-status", fill.status);
  setText(part("status"), fill.word);
  setText(part("doing"), fill.doing);
  part("progress").hidden = fill.percent === null;
  part("progress").value = fill.percent ?? 0;
}

function show(lake) {
  busy = lake.under_way;
  showFill(lake);
  const figures = lakeFigures(lake, { count, ago, now: serverNow() });
  part("figures").replaceChildren(...figures.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  part("notes").replaceChildren(...lakeNotes(lake, { count }).map((text) => el("li", {}, text)));
  const schedule = lake.schedule;
  box.checked = Boolean(schedule?.enabled);
  setText(part("when"), schedule ? whenText(schedule) : t("never"));
  if (document.activeElement !== form.elements.cron) form.elements.cron.value = schedule?.cron ?? "15 * * * *";
  if (requested && hasFinished(lake, requested.before)) {
    requested = null;
    showNote(lake.status === "done" ? t("Filled.") : "");
  } else if (requested && lake.status === "running") {
    showNote("");
  } else if (requested && Date.now() - requested.at > PATIENCE_MS) {
    requested = null;
    showNote(t("The report worker is busy with other work; the fill is still queued."));
  }
}

async function refresh() {
  clearTimeout(timer);
  try {
    show(await request("GET", "/lake"));
  } catch (error) {
    showNote(error.message, true);
  }
  timer = setTimeout(refresh, requested || busy ? BUSY_MS : CALM_MS);
}

part("fill").addEventListener("click", () => act(part("fill"), async () => {
  const before = await request("GET", "/lake");
  await request("POST", "/lake/sync", {});
  requested = { before, at: Date.now() };
  showNote(t("Requested. The report worker fills the lake after its current work."));
}));
part("cancel").addEventListener("click", () => act(part("cancel"), async () => {
  await request("DELETE", "/lake/sync");
  showNote("");
}));
box.addEventListener("change", () => act(box, () => request("PATCH", "/lake/schedule", { enabled: box.checked })));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  form.elements.cron.blur();
  act(button, async () => {
    await request("PATCH", "/lake/schedule", { cron: form.elements.cron.value.trim() });
    showNote("");
  });
});
refresh();
