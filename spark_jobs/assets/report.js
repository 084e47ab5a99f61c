
/* The page's own part; uPlot stands above. Everything from the store is shown through textContent. */
const { headlines, charts, tables, previous, step_ms: stepMs } = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#1f8a9e", "#d9822b", "#6a5acd", "#3a9d5d", "#c2497d", "#8a7a1f", "#4a7fd1", "#a3563b", "#7d8b94"];
const HEIGHT = 300;
const MOST_BARS_OF_TIME = 120;
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const fine = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
const counted = (value) => Math.abs(value) < 10 && !Number.isInteger(value) ? fine.format(value) : whole.format(value);
const iso = (ms) => new Date(ms).toISOString().replace("T", " ");
const write = {
  number: counted, text: String, flag: (value) => value ? "yes" : "no",
  time: (ms) => iso(ms).slice(0, 19), day: (ms) => iso(ms).slice(0, 10),
  share: (value) => `${whole.format(100 * value)} %`,
  us: (value) => value < 1_000 ? `${counted(value)} µs` : write.ms(value / 1_000),
  ms: (value) => value < 1_000 ? `${counted(value)} ms` : value < 60_000 ? `${counted(value / 1_000)} s`
    : value < 3_600_000 ? `${counted(value / 60_000)} min` : value < 172_800_000 ? `${counted(value / 3_600_000)} h` : `${counted(value / 86_400_000)} d`,
  bytes: (value) => {
    const step = value < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10));
    return `${whole.format(value / 1024 ** step)} ${["B", "KiB", "MiB", "GiB", "TiB"][step]}`;
  },
};
/** A value that was measured. Durations are whole microseconds or milliseconds, so 0 stands for less than one. */
const LEAST = { us: "< 1 µs", ms: "< 1 ms" };
const measured = (kind, value) => value === 0 && kind in LEAST ? LEAST[kind] : write[kind](value);
const UNITS = /_(us|ms|ts)$/;
const shown = (kind, value) => value === null || value === undefined ? "" : measured(kind, value);
/** A column as people call it; beside one that is called the same but for its unit, it is that in time. */
const called = (column, others = []) => column.replace(UNITS, "").replaceAll("_", " ").replace(/\bp(\d\d)(\d)?\b/, (_, two, more) => `${two}${more ? `.${more}` : ""} %`)
  + (UNITS.test(column) && others.includes(column.replace(UNITS, "")) ? " in time" : "");
/** What reports call things, which no name from the store is. */
const OWN = new Set(["stage", "measure", "method", "cause", "how", "fate", "state"]);
/** Where bars of a histogram begin and end, which is not measured. */
const BOUND = /^(from|to)_/;
const worded = (column, kind, value) => BOUND.test(column) && value !== null ? write[kind](value) : column === "broker" && value === "*" ? "all" : OWN.has(column) && value ? value.replaceAll("_", " ") : shown(kind, value);

function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/* --- Figures --- */

const change = (now, before) => before ? `${now >= before ? "+" : "−"}${whole.format(Math.abs(now / before - 1) * 100)} %` : "";

function headline(figure) {
  const card = el("div", { class: "headline" }, el("span", { class: "label" }, figure.label));
  card.append(figure.value === null ? el("span", { class: "value unknown" }, "none, or not known")
    : el("span", { class: "value" }, measured(figure.kind, figure.value)));
  if (previous) {
    const { value: now, before } = figure;
    const known = now !== null && before !== null;
    const direction = !known || now === before || !figure.better ? "" : (now > before) === (figure.better === "more") ? "better" : "worse";
    card.append(el("span", { class: "before" }, before === null ? "not known before" : before === 0 && now ? "none before " : `${measured(figure.kind, before)} before `,
      known ? el("span", direction ? { class: direction } : {}, `${change(now, before)}${direction && ` (${direction})`}`) : ""));
  }
  if (figure.report && location.protocol.startsWith("http")) card.append(el("a", { href: `/reports#report-${figure.report}`, class: "note" }, figure.report_title));
  return card;
}
document.getElementById("headlines").append(...headlines.map(headline));

/* --- Charts --- */

function choiceButtons(label, choices, spelled, pick) {
  const group = el("div", { class: "choices", role: "group", "aria-label": label });
  const buttons = choices.map((choice, index) => {
    const button = el("button", { type: "button", "aria-pressed": String(index === 0) }, spelled(choice));
    button.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      pick(choice);
    });
    return button;
  });
  group.append(...buttons);
  return group;
}

function choiceList(label, choices, spelled, pick) {
  const list = el("select", { "aria-label": label }, ...choices.map((choice, index) => el("option", { value: index }, spelled(choice))));
  list.addEventListener("change", () => pick(choices[list.value]));
  return list;
}

const offer = (...args) => (args[1].length > 5 ? choiceList : choiceButtons)(...args);

function makeChart(chart) {
  const box = el("div", { class: "chart" }), note = el("p", { class: "note" });
  const head = el("div", { class: "head" }, el("h2", {}, chart.title));
  const state = { y: chart.y[0], choice: chart.choices[0], plot: null };
  const show = () => {
    state.plot?.destroy();
    state.plot = null;
    box.replaceChildren();
    note.textContent = "";
    const rows = chosenRows(chart, state.choice);
    if (!rows.length) box.textContent = "There is nothing to draw.";
    else ({ bars: drawBars, histogram: drawHistogram, time: drawTime, stack: drawTime })[chart.kind](chart, state, rows, box, note);
    if (chart.left_out) note.textContent += ` ${whole.format(chart.left_out)} smaller ones are not shown; the files have them.`;
  };
  if (chart.choices.length > 1) head.append(offer(called(chart.choose), chart.choices, (value) => worded(chart.choose, chart.choice_kind, value) || "none", (choice) => { state.choice = choice; show(); }));
  if (chart.y.length > 1 && (chart.split || chart.kind === "bars")) head.append(offer("What to show", chart.y, (y) => called(y, chart.y), (y) => { state.y = y; show(); }));
  const section = el("section", {}, head, box, note);
  document.getElementById("charts").append(section);
  show();
  new ResizeObserver(() => state.plot?.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
}

/** Indices of the rows that are looked at. */
function chosenRows(chart, choice) {
  const column = chart.columns[chart.choose];
  const count = chart.columns[chart.y[0]].length;
  return Array.from({ length: count }, (_, index) => index).filter((index) => !column || column[index] === choice);
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/** "13:45", and the day below the first one and where a day begins; only days where a step is one. */
function timeTicks(ticks, step) {
  return ticks.map((seconds, index) => {
    const date = new Date(seconds * 1000), day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`, time = date.toISOString().slice(11, step < 60 ? 19 : 16);
    return step >= 86_400 ? day : index && time !== "00:00" ? time : `${time}\n${day}`;
  });
}

function axes(kind, more = {}, unit = "") {
  const style = getComputedStyle(document.documentElement);
  const axis = { stroke: style.getPropertyValue("--muted"), grid: { stroke: style.getPropertyValue("--line"), width: 1 }, ticks: { stroke: style.getPropertyValue("--line"), width: 1 } };
  return [{ ...axis, ...more }, { ...axis, size: 78, values: (_, ticks) => ticks.map((tick) => `${write[kind](tick)}${unit}`) }];
}

/** Lines over time; `stack`: on top of each other. Steps in which there is nothing are 0 for sums, gaps for the rest. */
function drawTime(chart, state, rows, box, note) {
  const { columns } = chart;
  const minutes = columns.minute_ts;
  const first = rows.reduce((low, row) => Math.min(low, minutes[row]), Infinity);
  const last = rows.reduce((high, row) => Math.max(high, minutes[row]), -Infinity);
  const count = Math.round((last - first) / stepMs) + 1;
  const sums = chart.kind === "stack" || chart.per_second;
  const names = chart.split ? [...new Set(rows.map((row) => columns.label[row]))] : chart.y;
  const place = new Map(names.map((name, index) => [name, index]));
  const values = names.map(() => Array.from({ length: count }, () => sums ? 0 : null));
  const scale = chart.per_second && chart.y_kinds[state.y] !== "share" ? 1000 / stepMs : 1;
  for (const row of rows) {
    const at = Math.round((minutes[row] - first) / stepMs);
    for (const y of chart.split ? [state.y] : chart.y) {
      const value = columns[y][row];
      if (value !== null) values[place.get(chart.split ? columns.label[row] : y)][at] = value * scale;
    }
  }
  const kind = chart.y_kinds[state.y];
  const times = Array.from({ length: count }, (_, index) => (first + index * stepMs) / 1000);
  const stacked = chart.kind === "stack" ? values.map((_, index) => times.map((_, at) => values.slice(index).reduce((sum, one) => sum + one[at], 0))) : values;
  const bars = chart.kind === "stack" && count <= MOST_BARS_OF_TIME;
  const text = (value) => `${sums ? write[kind](value) : measured(kind, value)}${chart.per_second ? "/s" : ""}`;
  state.plot = new uPlot({
    width: box.clientWidth, height: HEIGHT, tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    // of a single time uPlot would show years
    scales: { x: { range: (_, low, high) => [low - stepMs / 2000, (count === 1 ? low : high) + stepMs / 2000] }, y: { range: (_, low, high) => [0, high * 1.05 || 1] } },
    axes: axes(kind, { space: 60, values: (_, ticks, __, ___, step) => timeTicks(ticks, step) }, chart.per_second ? "/s" : ""),
    series: [{ label: "UTC", value: (_, seconds) => seconds === null ? "" : write.time(seconds * 1000) }, ...names.map((name, index) => ({
      label: chart.split ? worded(chart.split, chart.label_kind, name) : called(name), stroke: COLOURS[index % COLOURS.length], width: bars ? 0 : 1.5,
      ...(chart.kind === "stack" ? { fill: COLOURS[index % COLOURS.length], paths: bars ? uPlot.paths.bars({ size: [0.8, 60] }) : uPlot.paths.stepped({ align: 1 }) } : {}),
      points: { show: chart.kind === "time" && count <= 60 },
      value: (_, __, ___, at) => at === null || at === undefined || values[index][at] === null ? "" : text(values[index][at]) }))],
  }, [times, ...stacked], box);
  note.textContent = `Each step is ${write.ms(stepMs)}; drag to look closer, double-click to see all.`;
}

/** Where the next bar begins: each value has one below 8, above there are four for each power of two. */
const nextBar = (from) => from + (from < 8 ? 1 : 2 ** (Math.floor(Math.log2(from)) - 2));

function drawHistogram(chart, state, rows, box, note) {
  const [from, to] = chart.place.map((name) => chart.columns[name]);
  const kind = chart.place[0].slice(chart.place[0].lastIndexOf("_") + 1);
  const samples = new Map(rows.map((row) => [from[row], chart.columns.samples[row]]));
  const starts = [];
  const last = rows.reduce((high, row) => Math.max(high, from[row]), 0);
  for (let start = rows.reduce((low, row) => Math.min(low, from[row]), Infinity); start <= last; start = nextBar(start)) starts.push(start);
  const values = starts.map((start) => samples.get(start) ?? 0);
  const all = values.reduce((sum, value) => sum + value, 0);
  const spelled = (at) => `${write[kind](starts[at])} – ${write[kind](nextBar(starts[at]))}`;
  state.plot = new uPlot({
    width: box.clientWidth, height: HEIGHT,
    scales: { x: { time: false, range: [-0.7, starts.length - 0.3] }, y: { range: (_, low, high) => [0, high * 1.05 || 1] } },
    axes: axes("number", { space: 84, incrs: [1, 2, 4, 8, 16, 32], values: (_, ticks) => ticks.map((tick) => starts[tick] === undefined ? "" : write[kind](starts[tick])) }),
    series: [{ label: "took", value: (_, at) => at === null ? "" : spelled(at) }, {
      label: "how many", fill: COLOURS[0], stroke: COLOURS[0], width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.9, 60] }),
      value: (_, value) => value === null ? "" : `${whole.format(value)} (${whole.format(100 * value / all)} %)` }],
  }, [starts.map((_, index) => index), values], box);
  note.textContent = `${whole.format(all)} in all; four bars for each doubling.`;
}

function drawBars(chart, state, rows, box) {
  const { columns } = chart;
  const kind = chart.y_kinds[state.y];
  const most = Math.max(...rows.map((row) => columns[state.y][row] ?? 0)) || 1;
  const list = el("div", { class: "bars" });
  for (const row of rows) {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const shape = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const value = columns[state.y][row];
    for (const [name, setting] of Object.entries({ height: 14, rx: 3, width: `${Math.max(value ? 0.4 : 0, 100 * (value ?? 0) / most)}%` })) shape.setAttribute(name, setting);
    bar.append(shape);
    bar.setAttribute("aria-hidden", "true");
    const name = worded(chart.split, chart.label_kind, columns.label[row]);
    list.append(el("span", { class: "name", title: name }, name), bar, el("span", { class: "num" }, value === null ? "not known" : measured(kind, value)));
  }
  box.append(list);
}
for (const chart of charts) makeChart(chart);

/* --- Tables --- */

function makeTable([name, table], index) {
  const columns = Object.keys(table.columns);
  const head = el("tr"), body = el("tbody");
  const compared = index === 0 && previous ? comparison(table) : null;
  for (const column of columns) {
    head.append(el("th", { scope: "col", ...(table.kinds[column] === "text" ? {} : { class: "num" }) }, `${called(column, columns)}${/^(time|day)$/.test(table.kinds[column]) ? " (UTC)" : ""}`));
    if (column === compared?.column) head.append(el("th", { scope: "col", class: "num" }, "before"));
  }
  const count = table.columns[columns[0]].length;
  for (let row = 0; row < count; row += 1) {
    const line = el("tr");
    for (const column of columns) {
      line.append(el("td", table.kinds[column] === "text" ? {} : { class: "num" }, worded(column, table.kinds[column], table.columns[column][row])));
      if (column === compared?.column) line.append(el("td", { class: "num" }, compared.before(row)));
    }
    body.append(line);
  }
  const scroller = el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": `${called(name)}, scrollable` }, el("table", {}, el("thead", {}, head), body));
  const details = el("details", index === 0 ? { open: "" } : {}, el("summary", {}, el("h2", {}, `${called(name)[0].toUpperCase()}${called(name).slice(1)}`)),
    count ? scroller : el("p", { class: "note" }, "There is nothing in this table."));
  if (table.rows > count) details.append(el("p", { class: "note" }, `The first ${whole.format(count)} of ${whole.format(table.rows)} rows; the files have them all.`));
  document.getElementById("tables").append(el("section", {}, details));
}

/** What the first figure of each row was in the period before. */
function comparison(table) {
  const keys = Object.keys(table.columns).filter((name) => table.kinds[name] === "text" || name === "queue_id");
  const column = Object.keys(table.columns).find((name) => !keys.includes(name) && !/^(time|day|flag)$/.test(table.kinds[name]));
  const key = (columns, row) => JSON.stringify(keys.map((name) => columns[name][row]));
  const before = new Map(previous.columns[column].map((value, row) => [key(previous.columns, row), value]));
  return { column, before: (row) => {
    const was = before.get(key(table.columns, row)) ?? null;
    return was === null ? "none" : `${measured(table.kinds[column], was)} ${change(table.columns[column][row] ?? 0, was)}`;
  } };
}
Object.entries(tables).forEach(makeTable);
