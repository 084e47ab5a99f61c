/** The lake on the page of the reports: how far it is, when it is filled, and "fill it now". */

import { el, setAttribute, setText } from "./dom.js";
import { ago, count } from "./format.js";
import { request } from "./http.js";
import { figuresOf, fillOf, isFilled, notesOf } from "./lake_words.js";

const BUSY_MS = 1_000;
const CALM_MS = 10_000;
const PATIENCE_MS = 120_000;

const root = document.querySelector('[data-panel="lake"]');
const part = (name) => root.querySelector(`[data-part="${name}"]`);
const box = part("enabled");
const form = part("schedule");
let timer = null;
let asked = null;
let busy = false;

function say(text, failed = false) {
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
    asked = null;
    say(error.message, true);
  } finally {
    control.disabled = false;
  }
  await look();
}

function showFill(lake) {
  const fill = fillOf(lake);
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
  const words = figuresOf(lake, { count, ago, now: Date.now() });
  part("figures").replaceChildren(...words.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  part("notes").replaceChildren(...notesOf(lake, { count }).map((text) => el("li", {}, text)));
  const schedule = lake.schedule;
  box.checked = Boolean(schedule?.enabled);
  setText(part("when"), schedule ? schedule.when : "never");
  if (document.activeElement !== form.elements.cron) form.elements.cron.value = schedule?.cron ?? "15 * * * *";
  if (asked && isFilled(lake, asked.before)) {
    asked = null;
    say(lake.status === "done" ? "Filled." : "");
  } else if (asked && lake.status === "running") {
    say("");
  } else if (asked && Date.now() - asked.at > PATIENCE_MS) {
    asked = null;
    say("The report worker has other work first.");
  }
}

async function look() {
  clearTimeout(timer);
  try {
    show(await request("GET", "/lake"));
  } catch (error) {
    say(error.message, true);
  }
  timer = setTimeout(look, asked || busy ? BUSY_MS : CALM_MS);
}

part("fill").addEventListener("click", () => act(part("fill"), async () => {
  const before = await request("GET", "/lake");
  await request("POST", "/lake/sync", {});
  asked = { before, at: Date.now() };
  say("The report worker is told; it fills the lake when it has nothing else to do.");
}));
part("cancel").addEventListener("click", () => act(part("cancel"), async () => {
  await request("DELETE", "/lake/sync");
  say("");
}));
box.addEventListener("change", () => act(box, () => request("PATCH", "/lake/schedule", { enabled: box.checked })));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  form.elements.cron.blur();
  act(button, async () => {
    await request("PATCH", "/lake/schedule", { cron: form.elements.cron.value.trim() });
    say("");
  });
});
look();
