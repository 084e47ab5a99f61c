/** The path of a pull as SVG; parts light up when the broker's counters change. */

import { calm, panel, setText } from "../dom.js";
import { UNKNOWN, isKnown, shortCount } from "../text/format.js";
import { TALL, WIDE, EDGES, NODES } from "./path_layout.js";
import { t } from "../text/translate.js";

const SVG = "http://www.w3.org/2000/svg";
const LIT_MS = 650;
const PULSE_EVERY_MS = 2_000; // for each edge, because the browser draws the whole panel in each frame of a pulse
const narrow = window.matchMedia("(max-width: 720px)");

export function pathPanel() {
  const { part } = panel("path");
  const beside = part("beside").querySelectorAll("[data-counter]");
  let drawing = draw(part("drawing"));
  let shownCounters; // undefined: nothing was drawn yet
  let latest = null;
  narrow.addEventListener("change", () => {
    drawing = draw(part("drawing"));
    if (latest) show(latest);
  });

  function show(state) {
    for (const figure of beside) {
      const value = state.counters?.[figure.dataset.counter]; // the broker sends no counter that it does not know
      setText(figure, shortCount(value));
      figure.classList.toggle("is-unknown", !isKnown(value));
    }
    for (const [name, node] of Object.entries(NODES)) {
      const shown = drawing.nodes[name];
      const value = state.counters ? node.value(state.counters) : null;
      setText(shown.value, value === null ? UNKNOWN : shortCount(value));
      shown.value.classList.toggle("is-unknown", value === null);
      setText(shown.sub, state.counters ? node.sub(state.counters) : "");
      shown.group.classList.toggle("alarm", Boolean(state.counters && node.alarm?.(state.counters)));
    }
  }

  function light(counters, previous) {
    const moved = (name) => counters[name] > (previous[name] ?? 0);
    for (const [name, node] of Object.entries(NODES)) if (node.counters.some(moved)) lit(drawing.nodes[name].group);
    for (const [name, edge] of Object.entries(EDGES)) if (edge.counters.some(moved)) pulse(drawing.pulses[name], edge.delay);
  }

  return {
    render({ state, live }) {
      latest = state;
      if (state.counters === shownCounters) return;
      show(state);
      if (shownCounters && live && state.counters) light(state.counters, shownCounters);
      shownCounters = state.counters;
    },
  };
}

function lit(group) {
  group.classList.add("lit");
  window.clearTimeout(group.timer);
  group.timer = window.setTimeout(() => group.classList.remove("lit"), LIT_MS);
}

function pulse(path, delay) {
  const now = performance.now();
  if (calm.matches || now - (path.pulsedAt ?? -PULSE_EVERY_MS) < PULSE_EVERY_MS) return;
  path.pulsedAt = now;
  path.animate([{ strokeDashoffset: 14, opacity: 1 }, { strokeDashoffset: -200, opacity: 1 }],
    { duration: LIT_MS, delay, easing: "ease-in-out" });
}

function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function draw(box) {
  const layout = narrow.matches ? TALL : WIDE;
  const root = svg("svg", { class: "path-svg", viewBox: `0 0 ${layout.width} ${layout.height}`, role: "group",
    "aria-label": t("A pull is received, read, held, woken by an arrival, and answered") },
  svg("defs", {}, svg("marker", { id: "path-arrow", viewBox: "0 0 8 8", refX: "7", refY: "4", markerWidth: "7",
    markerHeight: "7", markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z", class: "arrow" }))));
  const pulses = {};
  for (const [name, { side }] of Object.entries(EDGES)) {
    const d = layout.edges[name];
    pulses[name] = svg("path", { d, class: "edge-pulse", pathLength: "200" });
    root.append(svg("path", { d, class: side ? "edge side" : "edge", "marker-end": "url(#path-arrow)" }), pulses[name]);
  }
  const nodes = {};
  for (const [name, node] of Object.entries(NODES)) {
    nodes[name] = drawNode(name, node, layout);
    root.append(nodes[name].group);
  }
  box.replaceChildren(root);
  return { nodes, pulses };
}

function drawNode(name, node, layout) {
  const [x, y] = layout.nodes[name];
  const { nodeWidth: width, nodeHeight: height } = layout;
  const value = svg("text", { x, y: y + 5, class: "node-value" });
  const sub = svg("text", { x, y: y + 21, class: "node-sub" });
  const title = svg("title", {});
  title.textContent = node.means;
  const label = svg("text", { x, y: y - 14, class: "node-name" });
  label.textContent = node.name;
  const group = svg("g", { class: `node ${name}${node.side ? " side" : ""}`, "data-node": name }, title,
    svg("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 8 }), label, value, sub);
  return { group, value, sub };
}
