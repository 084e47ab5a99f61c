/**
 * The common part of the Groups, group and Connections pages: the stream of events, a polled answer of the API, and
 * panels that draw both. The page is live while both are up to date.
 */

import { initialState, newestChange, mergeStreams, reduce } from "./client_events.js";
import { isAttached } from "./pages/attached.js";
import { EventsSocket } from "./socket.js";
import { Poller } from "./poll.js";
import { brokerTime } from "./reducer.js";
import { el, panel, setText } from "./dom.js";
import { UNKNOWN } from "./text/format.js";
import { brokerPicker, withBroker } from "./brokers.js";
import { requestOfAll } from "./http.js";
import { liveState } from "./panels/live_state.js";
import { t } from "./text/translate.js";

const TICK_EVERY_MS = 500;
const EVENTS_PATH = "/ws/v1/events";

/**
 * `ask()` promises the answer that the panels draw; `figures(answer)` returns [[name, text, title], ...] for the strip;
 * `group` is the group of a group's page. If `onError(error)` returns true, it has shown the error and the page stays
 * live.
 */
export function startPage({ ask, figures, panels, group = "", onError = () => false }) {
  const page = { streams: [], events: [], answer: null, answeredAt: null, problem: "" };
  const strip = statusStrip(() => page.streams.forEach(({ socket }) => socket.reconnectNow()), follow);

  /** Follows the events of one broker. With several, the first one's stream decides whether the page is live. */
  function follow(path) {
    const stream = { state: initialState(), status: "disconnected", reason: "", retryAt: null };
    stream.socket = new EventsSocket({
      path, subscription: { panels: ["clients"], group },
      onFrame(frame, receivedAt) {
        const previous = stream.state;
        stream.state = reduce(previous, frame, receivedAt, group);
        if (stream.state.needsSnapshot) stream.socket.requestSnapshot();
        if (stream.state.events !== previous.events) {
          page.events = mergeStreams(page.streams.map(({ state }) => state));
          if (newestChange(stream.state.events) !== newestChange(previous.events)) poller.soon();
        }
        draw();
      },
      onStatus(status, reason, retryAt) {
        if (status === "live" && stream.status !== "live") poller.soon(0);
        Object.assign(stream, { status, reason, retryAt });
        draw();
      },
    });
    page.streams.push(stream);
    stream.socket.connect();
  }

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
  follow(withBroker(EVENTS_PATH));
  draw();
  poller.start();
}

/** `now` is the broker's time, null while unknown; it stands still while nothing comes. */
function viewOf({ streams: [stream], ...page }) {
  const localNow = Date.now();
  const status = stream.status === "live" && page.problem ? "stale" : stream.status;
  const at = status === "live" ? localNow : page.answeredAt;
  return { ...page, ...stream, status, localNow, reason: stream.status === "live" ? page.problem : stream.reason,
    now: at === null ? null : brokerTime(stream.state, at), live: status === "live", knownAt: page.answeredAt,
    first: stream.state.seq === null || page.answeredAt === null };
}

function statusStrip(reconnect, follow) {
  const { part } = panel("status");
  const show = liveState(part, reconnect);
  const known = new Set();
  brokerPicker(part, (path) => requestOfAll("GET", path), {
    all: true,
    onBrokers(names) {
      for (const broker of names.filter((name) => !known.has(name))) {
        if (known.size) follow(`${EVENTS_PATH}?broker=${encodeURIComponent(broker)}`); // the first one is followed already
        known.add(broker);
      }
    },
  });
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
      setText(part("broker"), view.state.broker ?? t("unknown broker"));
      for (const [name, text, title] of figures ?? []) if (!(isAttached && name === t("held pulls"))) figure(name, text, title);
      show(view);
    },
    tick: show,
  };
}

/** Runs `work` and reports its error, so that one failing panel does not stop the others. */
function safely(work) {
  try {
    work();
  } catch (error) {
    reportError(error);
  }
}
