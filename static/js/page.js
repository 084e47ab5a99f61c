/**
 * What the pages of clients and groups share: the stream of events, an answer of the API that is asked for again and
 * again, and panels that draw both. The page is live when both come.
 */

import { initialState, reduce } from "./client_events.js";
import { EventsSocket } from "./socket.js";
import { Poller } from "./poll.js";
import { brokerTime } from "./reducer.js";
import { el, panel, setText } from "./dom.js";
import { UNKNOWN } from "./format.js";
import { brokerPicker } from "./brokers.js";
import { requestOfAll } from "./http.js";
import { liveState } from "./panels/live_state.js";

const TICK_EVERY_MS = 500;

/**
 * `ask()` promises the answer that the panels draw; `figures(answer)` gives [[name, text, title], ...] for the strip;
 * `group` is the one that the page is about, if it is about one. `onError(error)` may take an error: then the page
 * stays live.
 */
export function startPage({ ask, figures, panels, group = "", onError = () => false }) {
  const page = { state: initialState(), status: "disconnected", reason: "", retryAt: null, answer: null, answeredAt: null,
    problem: "" };
  const strip = statusStrip(() => socket.reconnectNow());
  const socket = new EventsSocket({
    subscription: { panels: ["clients"], group },
    onFrame(frame, receivedAt) {
      const before = page.state;
      page.state = reduce(before, frame, receivedAt, group);
      if (page.state.needsSnapshot) socket.askSnapshot();
      if (page.state.events !== before.events) poller.soon();
      draw();
    },
    onStatus(status, reason, retryAt) {
      if (status === "live" && page.status !== "live") poller.soon(0);
      Object.assign(page, { status, reason, retryAt });
      draw();
    },
  });
  const poller = new Poller({
    ask,
    onAnswer(answer) {
      Object.assign(page, { answer, answeredAt: Date.now(), problem: "" });
      draw();
    },
    onError(error) {
      if (onError(error)) Object.assign(page, { answer: null, answeredAt: Date.now(), problem: "" });
      else page.problem = error.message;
      draw();
    },
  });

  function draw() {
    const view = viewOf(page);
    document.body.dataset.live = view.status;
    if (!view.first) delete document.body.dataset.first;
    strip.render(view, page.answer === null ? null : figures(page.answer, view));
    for (const part of panels) safely(() => part.render(view));
  }

  window.setInterval(() => {
    const view = viewOf(page);
    strip.tick(view);
    for (const part of panels) safely(() => part.tick?.(view));
  }, TICK_EVERY_MS);
  draw();
  socket.connect();
  poller.start();
}

/** `now` is the broker's time, null while unknown; it stands still while nothing comes. */
function viewOf(page) {
  const localNow = Date.now();
  const status = page.status === "live" && page.problem ? "stale" : page.status;
  const at = status === "live" ? localNow : page.answeredAt;
  return { ...page, status, localNow, reason: page.status === "live" ? page.problem : page.reason,
    now: at === null ? null : brokerTime(page.state, at), live: status === "live", knownAt: page.answeredAt,
    first: page.state.seq === null || page.answeredAt === null };
}

function statusStrip(reconnect) {
  const { part } = panel("status");
  const show = liveState(part, reconnect);
  brokerPicker(part, (path) => requestOfAll("GET", path), { all: true });
  const shown = new Map();

  function figure(name, text, title) {
    if (!shown.has(name)) {
      const value = el("dd", {});
      shown.set(name, value);
      part("figures").append(el("div", { title }, el("dt", {}, name), value));
    }
    setText(shown.get(name), text);
    shown.get(name).classList.toggle("is-unknown", text === UNKNOWN);
  }

  return {
    render(view, figures) {
      setText(part("broker"), view.state.broker ?? "unknown broker");
      for (const [name, text, title] of figures ?? []) figure(name, text, title);
      show(view);
    },
    tick: show,
  };
}

/** A panel that fails must not take the others with it. */
function safely(work) {
  try {
    work();
  } catch (error) {
    reportError(error);
  }
}
