/**
 * The live page: frames of the stream update the state through the reducer, and panels draw the state at most ten times
 * a second. Panels share the time: those that find no room in one animation frame are drawn in the next.
 */

import { initialState, reduce, brokerTime } from "../reducer.js";
import { EventsSocket } from "../socket.js";
import { PageConsumer } from "../consumer.js";
import { attachedPanel } from "../panels/attached.js";
import { consumerPanel } from "../panels/consumer.js";
import { BROKER_CHARTS, historyPanel } from "../panels/history.js";
import { histogramsPanel } from "../panels/histograms.js";
import { holdsPanel } from "../panels/holds.js";
import { pastPanel } from "../panels/past.js";
import { pathPanel } from "../panels/path.js";
import { publishPanel } from "../panels/publish.js";
import { queuesPanel } from "../panels/queues.js";
import { slavesPanel } from "../panels/replication/slaves.js";
import { statusPanel } from "../panels/status.js";
import { trafficPanel } from "../panels/traffic.js";
import { wakeupsPanel } from "../panels/wakeups.js";
import { t } from "../text/translate.js";

const DRAW_EVERY_MS = 100;
const SLOWEST_DRAW_EVERY_MS = 500;
const SHARE_OF_TIME = 3;
const FRAME_MS = 17;
const DRAWING_MS = 5;
const TICK_EVERY_MS = 100;

const page = { state: initialState(), status: "disconnected", reason: "", retryAt: null };
let past = null;
let scheduled = false;
let drawnAt = 0;
let drawEveryMs = DRAW_EVERY_MS;
let cost = 0;
const undrawn = new Set();

/**
 * What the panels draw. `now` is the broker's time, null while unknown. While the page is not live, `now` is the time
 * of the last frame, so that ages are those of the data shown. While a board of the past is shown, `state` is that
 * board, and `current` is the state of now.
 */
function view() {
  const localNow = Date.now();
  if (past) {
    return { ...page, state: past, current: page.state, status: "past", reason: t("an earlier board; charts and forms belong to the present"),
      localNow, now: past.wallMs, live: false };
  }
  const at = page.status === "live" ? localNow : page.state.receivedAt;
  return { ...page, current: page.state, localNow, now: at === null ? null : brokerTime(page.state, at), live: page.status === "live" };
}

function schedule() {
  if (scheduled) return;
  scheduled = true;
  const wait = Math.max(0, drawnAt + drawEveryMs - performance.now());
  window.setTimeout(() => requestAnimationFrame(draw), wait);
}

function draw() {
  scheduled = false;
  drawnAt = performance.now();
  const isDrawing = undrawn.size > 0;
  for (const panel of panels) undrawn.add(panel);
  if (isDrawing) return;
  cost = 0;
  drawSome();
}

/** Draws panels for DRAWING_MS, and the others in the next animation frames. */
function drawSome() {
  const began = performance.now();
  const current = view();
  document.body.dataset.live = current.status;
  let spent = 0;
  for (const panel of undrawn) {
    undrawn.delete(panel);
    safely(() => panel.render(current));
    spent = performance.now() - began;
    if (spent > DRAWING_MS) break;
  }
  requestAnimationFrame(() => {
    cost += Math.max(spent, performance.now() - began - FRAME_MS);
    if (undrawn.size) drawSome();
    // Slow drawing (many rows, a slow machine) is done less often, so that the page stays responsive.
    else drawEveryMs = Math.min(SLOWEST_DRAW_EVERY_MS, Math.max(DRAW_EVERY_MS, cost * SHARE_OF_TIME));
  });
}

/** Runs `work` and reports its error, so that one failing panel does not stop the others. */
function safely(work) {
  try {
    work();
  } catch (error) {
    reportError(error);
  }
}

const socket = new EventsSocket({
  onFrame(frame, receivedAt) {
    page.state = reduce(page.state, frame, receivedAt);
    if (page.state.needsSnapshot) socket.requestSnapshot();
    schedule();
  },
  onStatus(status, reason, retryAt) {
    Object.assign(page, { status, reason, retryAt });
    document.body.dataset.live = status;
    if (page.state.seq !== null) delete document.body.dataset.first;
    schedule();
  },
});

const consumer = new PageConsumer();
const publish = publishPanel();
const panels = [
  statusPanel({ reconnect: () => socket.reconnectNow() }),
  attachedPanel(),
  slavesPanel(),
  pathPanel(),
  holdsPanel({ isOwn: (hold) => hold.client_id === consumer.clientId }),
  wakeupsPanel(),
  queuesPanel(),
  consumerPanel({ consumer, publish, wakeups: () => page.state.wakeups }),
  publish,
  trafficPanel(),
  histogramsPanel(),
];

window.setInterval(() => {
  const current = view();
  for (const panel of panels) safely(() => panel.tick?.(current));
}, TICK_EVERY_MS);
draw();
socket.connect();
historyPanel(BROKER_CHARTS);
pastPanel({
  show(board) {
    past = board && { ...reduce(initialState(), { type: "snapshot", ...board }, board.wall_ms), history: [] };
    schedule();
  },
});
