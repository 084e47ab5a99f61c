/** Charts of the last hour, day or month of the broker, a topic or a group. They are there as soon as the page opens. */

import { isAttached, knownCharts } from "../pages/attached.js";
import { el, panel, setText } from "../dom.js";
import { UNKNOWN, dateTimeSeconds, isKnown, micros, rate, shortCount } from "../text/format.js";
import { RANGES, lonely, missing, points, rangeOf, timeLabels, withRange } from "../history.js";
import { request } from "../http.js";
import { Chart, FONT, colour, countAxis, fromZero } from "./charts.js";
import { t } from "../text/translate.js";

const RETRY_MS = 5_000;
const STORED = { metric: "stored_tps", name: t("stored"), stroke: "--accent", fill: "--accent-soft" };
const DELIVERED = { metric: "delivered_tps", name: t("delivered"), stroke: "--good" };
const WOKEN = { metric: "woken_tps", name: t("wake-ups"), stroke: "--pulse" };
const line = (metric, stroke, fill) => ({ metric, name: "", stroke, fill });

/** The charts of the broker, a topic or a group. */
const chartsOf = (messages, lagIs) => [
  { title: t("Messages per second"), about: t("Average of a step"), lines: [...messages, WOKEN], format: rate },
  { title: t("Lag"), about: lagIs, lines: [line("lag", "--warn")], format: shortCount },
  { title: t("Held pulls"), about: t("Largest number in a step"), lines: [line("holds", "--pulse")], format: shortCount },
  { title: t("Wake-up latency, p99"), about: t("The slowest 10 s of a step"), lines: [line("wake_p99_us", "--accent")], format: micros },
];
export const BROKER_CHARTS = chartsOf([STORED, DELIVERED], t("Messages that the groups have not committed; largest number in a step"));
export const TOPIC_CHARTS = chartsOf([STORED, DELIVERED], t("Messages that the topic's groups have not committed; largest number in a step"));
export const GROUP_CHARTS = chartsOf([DELIVERED], t("Messages that the group has not committed; largest number in a step"));

/** `query` names the topic or the group, as "group=billing"; empty for the broker. */
export function historyPanel(all, query = "") {
  const charts = isAttached ? knownCharts(all, !query) : all;
  const { part } = panel("history");
  let range = rangeOf(location.search);
  let timer = 0;
  let asked = 0;

  const drawn = charts.map((chart) => {
    const readout = el("span", { class: "history-readout" });
    const box = el("div", { class: "chart" });
    const keys = chart.lines.filter(({ name }) => name).map(({ name, stroke }) => {
      const key = el("span", { class: "key" }, name);
      key.style.setProperty("--key", `var(${stroke})`);
      return key;
    });
    part("charts").append(el("figure", { class: "history-chart" },
      el("figcaption", {}, el("span", { class: "history-name", title: chart.about }, chart.title), ...keys, readout), box));
    return { ...chart, readout, box, plot: new Chart(box, () => options(chart, readout)) };
  });

  const buttons = RANGES.map((one) => {
    const button = el("button", { type: "button", class: "button small" }, one.title);
    button.addEventListener("click", () => choose(one));
    part("ranges").append(button);
    return [one, button];
  });

  function choose(one) {
    range = one;
    history.replaceState(history.state, "", `${location.pathname}${withRange(location.search, one)}${location.hash}`);
    ask();
  }

  function press() {
    for (const [one, button] of buttons) button.setAttribute("aria-pressed", String(one === range));
  }

  async function ask() {
    window.clearTimeout(timer);
    press();
    asked += 1;
    const own = asked;
    let wait = range.everyMs;
    try {
      const answer = await request("GET", `/history?last_s=${range.seconds}${query && `&${query}`}`);
      if (own === asked) show(answer);
    } catch (error) {
      const isOfSeveral = error.status === 400 && error.message.startsWith("several brokers");
      if (!isOfSeveral) wait = RETRY_MS;
      if (own === asked) note(isOfSeveral ? t("Choose one broker above to see its history.") : error.message);
    }
    if (own === asked) timer = window.setTimeout(() => document.hidden || ask(), wait);
  }

  function show(answer) {
    note(missing(answer, (ms) => dateTimeSeconds(ms)));
    for (const { plot, box, lines } of drawn) {
      const data = points(answer, lines.map(({ metric }) => metric));
      box.dataset.known = data.slice(1).flat().filter(isKnown).length;
      plot.draw(data, `${range.id}`);
    }
    part("charts").dataset.range = range.id;
  }

  function note(text) {
    setText(part("note"), text);
    part("note").hidden = !text;
  }

  document.addEventListener("visibilitychange", () => document.hidden || ask());
  ask();
}

function options({ lines, format }, readout) {
  return {
    scales: { x: { range: (_plot, min, max) => [min, max] }, y: { range: fromZero } },
    axes: [
      { stroke: colour("--muted"), font: FONT, size: 24, gap: 4, grid: { show: false }, space: 56,
        ticks: { stroke: colour("--line-strong"), size: 3, width: 1 }, values: (_plot, at) => timeLabels(at) },
      { ...countAxis(format), size: 52 },
    ],
    series: [{}, ...lines.map(({ stroke, fill }) => ({ stroke: colour(stroke), fill: fill && colour(fill), width: 1.5,
      points: { show: true, size: 4, fill: colour(stroke), filter: (plot, i) => lonely(plot.data[i]) } }))],
    cursor: { show: true, y: false, drag: { x: false, y: false }, points: { show: false }, sync: { key: "history" } },
    hooks: { setCursor: [(plot) => setText(readout, readoutOf(plot, lines, format))] },
  };
}

/** The time and the values under the pointer. */
function readoutOf({ cursor: { idx, left }, data }, lines, format) {
  if (!isKnown(idx) || left < 0) return "";
  const values = lines.map(({ name }, i) => `${name ? `${name} ` : ""}${isKnown(data[i + 1][idx]) ? format(data[i + 1][idx]) : UNKNOWN}`);
  return `${dateTimeSeconds(data[0][idx] * 1000)} · ${values.join(t(", "))}`;
}
