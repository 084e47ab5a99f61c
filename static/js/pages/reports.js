/** The Reports page: polls the public API, each second while a run is active. */

import { KeyedRows, el, setAttribute, setText } from "../dom.js";
import { count, dateTimeSeconds, span } from "../text/format.js";
import { serverNow } from "../clock.js";
import { request } from "../http.js";
import { requestedBroker } from "../brokers.js";
import { createGlance, showGlance } from "./report_glance.js";
import { unknownNote } from "./report_names.js";
import { WINDOWS, describeChange, describeRun, formatFigure, parseRun, queuedText, runRequest } from "../report_window.js";
import { queryOf, writeQuery } from "../search_state.js";
import { Schedules } from "./schedules.js";
import { serverText } from "../text/server/texts.js";
import { t } from "../text/translate.js";

const BUSY_MS = 1_000;
const CALM_MS = 10_000;
const TYPING_MS = 300;
const ACTIVE = new Set(["queued", "waiting", "running"]);
const STATUS_WORDS = { waiting: t("waiting for Spark"), running: t("running"), queued: t("queued"), done: t("done"), failed: t("failed"), cancelled: t("cancelled") };
const PAGE = "report.html";
const SUMMARY = "summary.json";
const SECTION = "#report-";

const spark = document.querySelector('[data-panel="spark"]');
const banner = document.querySelector('[data-part="problem"]');
const list = document.querySelector('[data-panel="reports"]');
const nav = document.querySelector('[data-part="nav"]');
const form = document.querySelector('[data-panel="window"]');
const template = document.getElementById("report-template");
const partOf = (root, name) => root.querySelector(`[data-part="${name}"]`);
const path = (name, run = "") => `/reports/${encodeURIComponent(name)}/runs${run && `/${run}`}`;
let timer = null;
let typing = null;
let isWorkerBusy = false;
let known = [];

function showNote(section, text, failed = false) {
  const note = partOf(section, "note");
  setText(note, text);
  note.hidden = !text;
  note.toggleAttribute("data-failed", failed);
}

/** Runs an action, shows its error (unless `throws`), and refreshes the page. */
async function act(section, button, action, { throws = false } = {}) {
  button.disabled = true;
  try {
    await action();
    showNote(section, "");
  } catch (error) {
    if (throws) throw error;
    showNote(section, error.message, true);
  } finally {
    button.disabled = false;
  }
  await refresh();
}

function createReport(report) {
  const section = template.content.firstElementChild.cloneNode(true);
  setAttribute(section, "data-report", report.name);
  const title = partOf(section, "title");
  title.id = `title-${report.name}`;
  section.id = `report-${report.name}`;
  setAttribute(section, "aria-labelledby", title.id);
  setText(title, report.title);
  setText(partOf(section, "description"), report.description);
  const button = partOf(section, "run");
  setAttribute(button, "aria-label", t("Run {0} now", report.title));
  button.addEventListener("click", () => act(section, button, () => start(report.name)));
  const earlier = partOf(section, "earlier");
  earlier.addEventListener("click", () => {
    section.showsAll = !section.showsAll;
    refresh();
  });
  section.schedules = new Schedules(partOf(section, "schedules"), report,
    (control, action, options) => act(section, control, action, options));
  section.runs = new KeyedRows(partOf(section, "runs"), { create: (run) => createRun(section, run), update: showRun });
  return section;
}

function showReport(section, report) {
  partOf(section, "run").hidden = report.runs.some((run) => ACTIVE.has(run.status));
  partOf(section, "empty").hidden = report.runs.length > 0;
  section.all = report.runs;
  showRuns(section);
  showResult(section, report.runs.find((run) => run.status === "done"));
  section.schedules.show(report.schedules);
}

/** The newest run, or all runs. */
function showRuns(section) {
  const earlier = partOf(section, "earlier");
  section.runs.show(section.showsAll ? section.all : section.all.slice(0, 1), (run) => run.id);
  earlier.hidden = section.all.length < 2;
  setAttribute(earlier, "aria-expanded", Boolean(section.showsAll));
  setText(earlier, section.showsAll ? t("Newest run only") : t("Earlier runs"));
}

/** The headlines of the newest finished run. */
function showResult(section, run) {
  const box = partOf(section, "result");
  box.hidden = !run || !(run.headlines.length || run.notes.length);
  if (box.hidden || section.result === run.id) return;
  section.result = run.id;
  setText(partOf(section, "about"), t("Run #{0}: {1}{2}", run.id, describeRun(run.parameters), run.parameters.compare ? t(", compared with the period before") : ""));
  partOf(section, "words").replaceChildren(...run.words.map((sentence) => el("p", {}, sentence)));
  partOf(section, "figures").replaceChildren(...run.headlines.map(figure));
  partOf(section, "notes").replaceChildren(...run.notes.map((note) => el("li", {}, note)));
}

function figure(headline) {
  const isKnown = headline.value !== null; // null may also mean that there is none
  const value = isKnown ? formatFigure(headline.kind, headline.value) : t("none, or unknown");
  const difference = describeChange(headline);
  const name = headline.report ? el("a", { href: `#report-${headline.report}` }, headline.label) : headline.label;
  return el("div", {}, el("dt", {}, name), el("dd", { class: isKnown ? null : "is-unknown" }, value,
    ...(difference ? [el("span", { class: "figure-change", "data-tone": difference.tone || null, title: t("{0} before", formatFigure(headline.kind, headline.before)) }, difference.text)] : [])));
}

function createRun(section, run) {
  const button = el("button", { type: "button", class: "button small" });
  const ask = () => act(section, button, () => request("DELETE", path(run.report, run.id)));
  button.addEventListener("click", ask);
  const cell = (name, options = {}, ...children) => el("td", { role: "cell", "data-cell": name, ...options }, ...children);
  return el("tr", { role: "row", "data-run": run.id },
    cell("id", {}, `#${run.id}`),
    cell("status", { class: "wide" }, el("span", { class: "run-status" }), el("span", { class: "run-doing" }),
      el("progress", { class: "run-progress", max: 100, "aria-label": t("Progress of run {0}", run.id) }),
      el("p", { class: "run-error" }, el("span"), " ",
        el("a", { href: `/api/v1${path(run.report, run.id)}/log`, download: true, hidden: true, "aria-label": t("Log of run {0}", run.id) }, t("Log")))),
    cell("started", { class: "quiet" }), cell("duration", { class: "num", "data-label": t("duration") }),
    cell("messages", { class: "num", "data-label": t("messages read") }), cell("files", { class: "wide" }, el("div", { class: "run-files" })),
    cell("action", {}, button));
}

function showRun(row, run) {
  const at = (name) => row.querySelector(`[data-cell="${name}"]`);
  const active = ACTIVE.has(run.status);
  const status = row.querySelector(".run-status");
  setAttribute(row, "data-status", run.status);
  setAttribute(status, "data-status", run.status);
  setText(status, run.cancel_requested && active ? t("stopping") : STATUS_WORDS[run.status] ?? run.status);
  setText(row.querySelector(".run-doing"), active ? ` ${doingText(run)}` : "");
  const bar = row.querySelector("progress");
  bar.hidden = run.status !== "running";
  bar.value = run.percent;
  setText(row.querySelector(".run-error span"), run.error);
  row.querySelector(".run-error a").hidden = active || !run.has_log;
  setText(at("started"), whenText(run));
  setText(at("duration"), run.started_ms && run.finished_ms ? durationText(run.finished_ms - run.started_ms) : "");
  setText(at("messages"), run.messages === null ? "" : count(run.messages));
  const button = row.querySelector("button");
  setText(button, active ? t("Cancel") : t("Remove"));
  setAttribute(button, "aria-label", t("{0} run {1}", active ? t("Cancel") : t("Remove"), run.id));
  showFiles(row, run);
}

function doingText(run) {
  if (run.status === "waiting") return ""; // the page says why, for all runs
  if (run.status === "queued" && !run.doing) return queuedText(run, isWorkerBusy, serverNow());
  return run.doing && run.status === "running" ? `${run.doing}, ${run.percent} %` : run.doing;
}

const whenText = (run) => dateTimeSeconds(run.started_ms ?? run.created_ms);
const durationText = (ms) => ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms);

function showFiles(row, run) {
  const box = row.querySelector(".run-files");
  const shown = run.files.join();
  if (box.dataset.shown === shown) return;
  box.dataset.shown = shown;
  const link = (file, text, more = {}) => el("a", { href: `/api/v1${path(run.report, run.id)}/files/${file}`, ...more }, text);
  const tables = run.files.filter((file) => /\.(csv|json|parquet)$/.test(file) && file !== SUMMARY);
  box.replaceChildren();
  if (run.files.includes(PAGE)) box.append(link(PAGE, t("Open"), { target: "_blank", rel: "noopener", "aria-label": t("Open the page of run {0}", run.id) }));
  if (run.files.includes(SUMMARY)) box.append(link(SUMMARY, "JSON", { download: true }));
  if (tables.length) {
    box.append(el("details", {}, el("summary", {}, t("CSV, JSON, Parquet")),
      el("div", {}, ...tables.map((file) => link(file, file, { download: true })))));
  }
}

/** Says why runs wait for Spark, once for all of them. */
function showSpark(problem) {
  setText(spark, t("Runs wait for Spark: {0}", serverText(problem)));
  spark.hidden = !problem;
}

/** Starts a run with the form's parameters. Throws an Error with a sentence. */
async function start(name) {
  const broker = form.elements.broker.value;
  await request("POST", `${path(name)}${broker && `?broker=${encodeURIComponent(broker)}`}`, requestedRun());
}

/** A choice of brokers, where there are several and the page's address names none. */
function showBrokers(names) {
  const select = form.elements.broker;
  select.closest("label").hidden = names.length < 2 || Boolean(requestedBroker);
  if (select.options.length === names.length + 1) return;
  select.replaceChildren(el("option", { value: "" }, t("all")), ...names.map((name) => el("option", { value: name }, name)));
  select.value = names.includes(queryOf(ADDRESS.broker)) ? queryOf(ADDRESS.broker) : "";
}

/** The request body of the form at the top. */
const requestedRun = () => runRequest({ choice: form.elements.choice.value, from: form.elements.from.value, to: form.elements.to.value,
  topic: form.elements.topic.value, group: form.elements.group.value, compare: form.elements.compare.checked }, serverNow());

function showForm() {
  const { choice, compare } = form.elements;
  for (const field of form.querySelectorAll('[data-field="custom"]')) field.hidden = choice.value !== "custom";
  compare.disabled = choice.value === "all";
  setText(partOf(form, "no-compare"), compare.disabled ? t("(choose a time range to compare)") : "");
  if (compare.disabled) compare.checked = false;
}
form.elements.choice.append(...Object.entries(WINDOWS).map(([value, text]) => el("option", { value }, text)));

/** The form's fields by their names in the page's address; ?broker= there is about the whole page. */
const ADDRESS = { choice: "range", from: "from", to: "to", topic: "topic", group: "group", broker: "of_broker" };

function readForm() {
  for (const [field, name] of Object.entries(ADDRESS)) if (queryOf(name)) form.elements[field].value = queryOf(name);
  const { choice, compare } = form.elements;
  if (!choice.value) choice.value = "all";
  compare.checked = queryOf("compare") !== "";
}

async function showUnknown() {
  const text = await unknownNote(form.elements);
  if (text !== null) setText(partOf(form, "unknown"), text);
}

function writeForm() {
  const { choice, compare } = form.elements;
  const values = Object.entries(ADDRESS).map(([field, name]) => [name, form.elements[field].value.trim()]);
  const unused = { ...(choice.value === "all" && { range: "" }), ...(choice.value !== "custom" && { from: "", to: "" }) };
  writeQuery({ ...Object.fromEntries(values), ...unused, compare: compare.checked ? "1" : "" });
}

form.addEventListener("change", () => {
  showForm();
  writeForm();
});
/** While the names are being typed, not when their fields are left: then a click on a button is under way. */
form.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(showUnknown, TYPING_MS);
});
form.addEventListener("submit", (event) => event.preventDefault());
readForm();
showForm();
showUnknown();

/** A row for each report: its last result, and a button to run it. */
const glances = new KeyedRows(nav, { create: (report) => createGlance(report, startOne), update: (row, report) => showGlance(row, report, serverNow()) });
const overview = nav.closest("[data-panel]");

function startOne(button, name) {
  return act(overview, button, () => start(name));
}

/** Starts every report that is not under way already. Shows the first failure, after the others were started. */
function startAll(button) {
  return act(overview, button, async () => {
    const idle = known.filter(({ runs }) => !runs.some((run) => ACTIVE.has(run.status)));
    if (known.length && !idle.length) throw new Error(t("Every report is under way already."));
    const ends = await Promise.allSettled(idle.map(({ name }) => start(name)));
    const failure = ends.find(({ status }) => status === "rejected");
    if (failure) throw failure.reason;
  });
}
partOf(overview, "run-all").addEventListener("click", (event) => startAll(event.currentTarget));

/** Reports without runs and schedules have no panel until somebody opens them. */
const opened = new Set();
const isShown = ({ name, runs, schedules }) => runs.length > 0 || schedules.length > 0 || opened.has(name);
addEventListener("hashchange", () => refresh());

const reports = new KeyedRows(list, { create: createReport, update: showReport });

/** Reads and shows all reports; the next time after 1 s while a run is active, otherwise after 10 s. */
async function refresh() {
  clearTimeout(timer);
  let wait = CALM_MS;
  try {
    const answer = await request("GET", "/reports");
    banner.hidden = true;
    for (const report of answer.reports) {
      if (reports.rows.get(report.name)?.showsAll) report.runs = (await request("GET", path(report.name))).runs;
      report.title = serverText(report.title);
      report.description = serverText(report.description);
      report.runs = report.runs.map(parseRun);
    }
    isWorkerBusy = answer.reports.some((report) => report.runs.some((run) => run.status === "running"));
    showSpark(answer.spark_problem);
    known = answer.reports;
    if (location.hash.startsWith(SECTION)) opened.add(location.hash.slice(SECTION.length));
    showBrokers(answer.brokers);
    glances.show(known, (report) => report.name);
    reports.show(known.filter(isShown), (report) => report.name);
    goToReport();
    if (answer.reports.some((report) => report.runs.some((run) => ACTIVE.has(run.status)))) wait = BUSY_MS;
  } catch (error) {
    setText(banner, error.message);
    banner.hidden = false;
    wait = BUSY_MS;
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, wait);
}

let shownHash = "";
/** Scrolls to the report named in the address, once it exists. */
function goToReport() {
  if (location.hash === shownHash) return;
  shownHash = location.hash;
  document.getElementById(shownHash.slice(1))?.scrollIntoView();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refresh();
});
refresh();
