
/* The page's own part; uPlot stands above. Everything from the log is shown through textContent. */
const { summary, tables } = JSON.parse(document.getElementById("data").textContent);
const MOST_TOPICS = 8;
const MOST_POINTS = 1500;
const COLOURS = ["#1f8a9e", "#d9822b", "#6a5acd", "#3a9d5d", "#c2497d", "#8a7a1f", "#4a7fd1", "#a3563b", "#7d8b94"];
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const write = { number: (value) => whole.format(value), time: (ms) => new Date(ms).toISOString().replace("T", " ").slice(0, 19),
  text: (value) => String(value),
  bytes: (value) => {
    const step = value < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10));
    return `${whole.format(value / 1024 ** step)} ${["B", "KiB", "MiB", "GiB", "TiB"][step]}`;
  } };
const kindOf = (column) => column.endsWith("_ts") ? "time" : column === "topic" ? "text"
  : /bytes|size/.test(column) ? "bytes" : "number";

document.getElementById("title").textContent = summary.title;
document.getElementById("lead").textContent =
  `${write.number(summary.total.messages)} messages, ${write.bytes(summary.total.bytes)}, ${summary.rows.length} topics`;

function fillTable(name) {
  const table = document.getElementById(name);
  const columns = Object.keys(tables[name]);
  const head = table.createTHead().insertRow();
  for (const column of columns) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = column.replaceAll("_", " ").replace(/ ts$/, " (UTC)");
    if (kindOf(column) !== "text") cell.className = "num";
    head.append(cell);
  }
  const body = table.createTBody();
  for (let row = 0; row < tables[name][columns[0]].length; row += 1) {
    const line = body.insertRow();
    for (const column of columns) {
      const cell = line.insertCell();
      cell.textContent = write[kindOf(column)](tables[name][column][row]);
      if (kindOf(column) !== "text") cell.className = "num";
    }
  }
}

/** Times in steps, and for each of the busiest topics what was stored in each step; the rest is one series. */
function series(measure) {
  const { minute_ts: minutes, topic: topics, [measure]: values } = tables.by_minute;
  const first = minutes[0], last = minutes.at(-1);
  const step = 60_000 * Math.max(1, Math.ceil((last - first) / 60_000 / MOST_POINTS));
  const count = Math.floor((last - first) / step) + 1;
  const busiest = [...summary.rows].sort((a, b) => b[measure] - a[measure]).slice(0, MOST_TOPICS).map((row) => row.topic);
  const names = summary.rows.length > MOST_TOPICS ? [...busiest, "all others"] : busiest;
  const place = new Map(busiest.map((name, index) => [name, index]));
  const sums = names.map(() => new Float64Array(count));
  minutes.forEach((minute, index) => {
    sums[place.get(topics[index]) ?? MOST_TOPICS][Math.floor((minute - first) / step)] += values[index];
  });
  return { names, step, times: Array.from({ length: count }, (_, index) => (first + index * step) / 1000), sums };
}

let chart = null;
function draw(measure) {
  chart?.destroy();
  const box = document.getElementById("chart");
  if (!tables.by_minute.minute_ts.length) {
    box.textContent = "No message was stored in this time.";
    return;
  }
  const { names, step, times, sums } = series(measure);
  const stacked = sums.map((_, index) => times.map((_, at) => sums.slice(index).reduce((sum, one) => sum + one[at], 0)));
  const style = getComputedStyle(document.documentElement);
  const axis = { stroke: style.getPropertyValue("--muted"), grid: { stroke: style.getPropertyValue("--line"), width: 1 },
    ticks: { stroke: style.getPropertyValue("--line"), width: 1 } };
  const shown = write[kindOf(measure)];
  const bars = times.length <= 120;
  chart = new uPlot({
    width: box.clientWidth, height: 300, scales: { x: { range: (_, low, high) => times.length === 1 ? [times[0] - step / 1000, times[0] + step / 1000] : [low - step / 2000, high + step / 2000] },
      y: { range: (_, low, high) => [0, high * 1.05 || 1] } },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    axes: [axis, { ...axis, size: 74, values: (_, ticks) => ticks.map(shown) }],
    series: [{ label: "UTC", value: (_, seconds) => seconds === null ? "" : write.time(seconds * 1000) }, ...names.map((label, index) => ({
      label, fill: COLOURS[index], stroke: COLOURS[index], width: bars ? 0 : 1, points: { show: false },
      paths: bars ? uPlot.paths.bars({ size: [0.8, 60] }) : uPlot.paths.stepped({ align: 1 }),
      value: (_, __, ___, at) => at === null || at === undefined ? "" : shown(sums[index][at]) }))],
  }, [times, ...stacked], box);
  document.getElementById("chart-note").textContent =
    `Each step is ${step === 60_000 ? "one minute" : `${whole.format(step / 60_000)} minutes`} of store time; drag to look closer, double-click to see all.`;
}

function drawSizes() {
  const sums = new Map();
  tables.by_size.size_class.forEach((size, index) => sums.set(size, (sums.get(size) ?? 0) + tables.by_size.messages[index]));
  const most = Math.max(1, ...sums.values());
  const list = document.createElement("div");
  list.className = "sizes";
  for (const [size, messages] of [...sums].sort((a, b) => a[0] - b[0])) {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const shape = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, value] of Object.entries({ height: 14, rx: 3, width: `${Math.max(0.4, 100 * messages / most)}%` })) shape.setAttribute(name, value);
    bar.append(shape);
    bar.setAttribute("aria-hidden", "true");
    const [label, count] = [document.createElement("span"), document.createElement("span")];
    label.textContent = `up to ${write.bytes(size)}`;
    count.textContent = write.number(messages);
    count.className = "num";
    list.append(label, bar, count);
  }
  document.getElementById("by_size").append(list);
}

const buttons = [...document.querySelectorAll("[data-measure]")];
let measure = "messages";
for (const button of buttons) {
  button.addEventListener("click", () => {
    measure = button.dataset.measure;
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
    draw(measure);
  });
}
fillTable("by_topic");
fillTable("by_queue");
drawSizes();
draw(measure);
window.addEventListener("resize", () => chart?.setSize({ width: document.getElementById("chart").clientWidth, height: 300 }));
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(measure));
