/**
 * The page's state of the broker, built from the frames of /ws/v1/events. Pure: no clock, no DOM, no socket.
 * `reduce(state, frame, receivedAt)` returns a new state and does not change the old one, except that both have the same
 * Maps of holds and queues: to copy 10,000 rows ten times a second would be 20 MB of garbage a second. `holdsChanges` and
 * `queuesChanges` count their changes. The same file runs in the page and under `node --test`.
 *
 * A value that the broker has not sent yet is null, never 0.
 */

export const MAX_WAKEUPS = 200;
const MAX_SNAPSHOT_HOLDS = 1000;
const MAX_OFFSET_SAMPLES = 20;
const QUEUE_WINDOW_MS = 10_000;
const QUEUE_SAMPLE_EVERY_MS = 900;
const HISTORY_MS = 300_000;
const HISTORY_EVERY_MS = 900;
const LONGEST_SILENCE_MS = 6_000;

export function initialState() {
  return {
    broker: null,
    epoch: null,
    seq: null,
    wallMs: null,
    receivedAt: null,
    watchedSinceMs: null,
    clockSamples: [],
    clockOffsetMs: null,
    longPollingEnable: null,
    shortPollingTimeMills: null,
    problem: "",
    holds: new Map(),
    holdsChanges: 0,
    holdsTotal: null,
    queues: new Map(),
    queuesChanges: 0,
    queuesTotal: null,
    wakeups: [],
    counters: null,
    history: [],
    wakeupUs: null,
    heldMs: null,
    positions: null,
    dropped: 0,
    gaps: 0,
    needsSnapshot: true,
  };
}

/** A queue's key in RocketMQ's tables: topic@queueId. A pop from all queues has the queue -1, which no queue has. */
export function queueKey(topic, queueId) {
  return `${topic}@${Number(queueId) < 0 ? "any" : queueId}`;
}

/** The state after `frame`, which arrived at `receivedAt` (ms of this machine's clock). */
export function reduce(state, frame, receivedAt) {
  switch (frame?.type) {
    case "snapshot":
      return applySnapshot(state, frame, receivedAt);
    case "delta":
      return applyDelta(state, frame, receivedAt);
    case "lost":
      return { ...state, needsSnapshot: true };
    default:
      return state;
  }
}

function applySnapshot(state, frame, receivedAt) {
  const same = state.broker === frame.broker && state.epoch === frame.epoch;
  const base = same ? state : { ...initialState(), gaps: state.gaps };
  // After a long silence the times of the changes are unknown, so rates start again from nothing.
  const silent = base.wallMs === null || frame.wall_ms - base.wallMs > LONGEST_SILENCE_MS;
  const next = {
    ...base,
    ...clock(base, frame.wall_ms, receivedAt),
    broker: frame.broker,
    epoch: frame.epoch,
    seq: frame.seq,
    shortPollingTimeMills: frame.short_polling_time_mills ?? null,
    holds: new Map(frame.holds.map((hold) => [hold.id, hold])),
    holdsChanges: base.holdsChanges + 1,
    holdsTotal: frame.holds_total,
    watchedSinceMs: silent ? frame.wall_ms : base.watchedSinceMs,
    history: silent ? [] : base.history,
    queues: withQueues(new Map(), silent ? new Map() : base.queues, frame.queues, frame.wall_ms),
    queuesChanges: base.queuesChanges + 1,
    queuesTotal: frame.queues_total,
    wakeups: mergeWakeups(base.wakeups, frame.wakeups),
    positions: frame.positions ?? null,
    needsSnapshot: false,
  };
  return withAbsolutes(next, frame);
}

function applyDelta(state, delta, receivedAt) {
  if (state.seq === null || state.needsSnapshot) {
    return state.needsSnapshot ? state : { ...state, needsSnapshot: true };
  }
  if (delta.epoch !== state.epoch || delta.broker !== state.broker) {
    return { ...state, needsSnapshot: true }; // the broker was restarted
  }
  if (delta.seq_from > state.seq + 1) {
    return { ...state, needsSnapshot: true, gaps: state.gaps + 1 };
  }
  if (delta.seq_to < state.seq) return state; // older than the snapshot
  return applyKnownDelta(state, delta, receivedAt);
}

function applyKnownDelta(state, delta, receivedAt) {
  const changedHolds = changeHolds(state.holds, delta.holds);
  const knownQueues = state.queues.size;
  const changedQueues = changeQueues(state.queues, delta.queues, delta.wall_ms);
  const added = state.queues.size - knownQueues;
  const total = delta.holds?.total ?? state.holdsTotal;
  const next = {
    ...state,
    ...clock(state, delta.wall_ms, receivedAt),
    seq: Math.max(state.seq, delta.seq_to),
    holdsChanges: state.holdsChanges + changedHolds,
    holdsTotal: total,
    queuesChanges: state.queuesChanges + changedQueues,
    queuesTotal: state.queuesTotal === null ? null : Math.max(state.queuesTotal + added, state.queues.size),
    wakeups: mergeWakeups(state.wakeups, delta.wakeups ?? []),
    dropped: state.dropped + (delta.dropped ?? 0),
    needsSnapshot: total !== null && isOutOfStep(state.holds.size, total, delta.dropped ?? 0),
  };
  return withAbsolutes(next, delta);
}

/** Whether changes were missed: more rows than the broker has holds, or too few after a frame that left some out. */
function isOutOfStep(rows, total, dropped) {
  return rows > total || (dropped > 0 && rows < Math.min(total, MAX_SNAPSHOT_HOLDS));
}

/** The values that every frame carries in full, so that a lost frame does no lasting harm. */
function withAbsolutes(state, frame) {
  const counters = frame.counters ?? state.counters;
  return {
    ...state,
    longPollingEnable: frame.long_polling_enable ?? state.longPollingEnable,
    problem: frame.problem ?? state.problem,
    counters,
    history: withHistory(state.history, frame.wall_ms, counters),
    wakeupUs: frame.wakeup_us ?? state.wakeupUs,
    heldMs: frame.held_ms ?? state.heldMs,
  };
}

/** -> how many rows were added or removed. */
function changeHolds(holds, { added = [], removed = [] } = {}) {
  for (const hold of added) holds.set(hold.id, hold);
  for (const id of removed) holds.delete(id);
  return added.length + removed.length;
}

/** -> how many queues were changed or removed. */
function changeQueues(queues, { changed = [], removed = [] } = {}, wallMs) {
  withQueues(queues, queues, changed, wallMs);
  for (const [topic, queueId] of removed) queues.delete(queueKey(topic, queueId));
  return changed.length + removed.length;
}

/** Adds `views` to `into`, with recent max offsets: `samples` is [[wallMs, maxOffset], ...], oldest first. */
function withQueues(into, previous, views, wallMs) {
  for (const view of views) {
    const key = queueKey(view.topic, view.queue_id);
    into.set(key, { ...view, key, samples: withSample(previous.get(key)?.samples ?? [], wallMs, view.max_offset) });
  }
  return into;
}

function withSample(samples, wallMs, maxOffset) {
  const last = samples.at(-1);
  if (last && maxOffset < last[1]) return [[wallMs, maxOffset]]; // the topic was deleted and created again
  if (last && samples.length > 1 && wallMs - samples.at(-2)[0] < QUEUE_SAMPLE_EVERY_MS) {
    return [...samples.slice(0, -1), [wallMs, maxOffset]];
  }
  const next = [...samples, [wallMs, maxOffset]];
  while (next.length > MAX_OFFSET_SAMPLES || (next.length > 2 && next[1][0] < wallMs - QUEUE_WINDOW_MS)) next.shift();
  return next;
}

function withHistory(history, wallMs, counters) {
  if (!counters) return history;
  const last = history.at(-1);
  if (last && history.length > 1 && wallMs - history.at(-2).wallMs < HISTORY_EVERY_MS) {
    return [...history.slice(0, -1), { wallMs, counters }];
  }
  return [...history.filter((entry) => entry.wallMs >= wallMs - HISTORY_MS), { wallMs, counters }];
}

/** Both lists as one: newest first, without duplicates, at most MAX_WAKEUPS. */
function mergeWakeups(known, fresh) {
  if (!fresh?.length) return known;
  const newest = known[0]?.seq ?? -1;
  let added = fresh;
  if (fresh.some(({ seq }) => seq <= newest)) { // rarely: after a snapshot
    const seen = new Set(known.map(wakeupKey));
    added = fresh.filter((wakeup) => !seen.has(wakeupKey(wakeup)));
  }
  if (!added.length) return known;
  return [...added, ...known].sort((a, b) => b.seq - a.seq).slice(0, MAX_WAKEUPS);
}

export function wakeupKey(wakeup) {
  return `${wakeup.seq}:${wakeup.hold_id}`;
}

/**
 * How far the broker's clock is ahead of this machine's. A delayed frame makes the difference smaller, so the largest of
 * the last differences is the most exact.
 */
export function clock(state, wallMs, receivedAt) {
  const clockSamples = [...state.clockSamples, wallMs - receivedAt].slice(-20);
  return { wallMs, receivedAt, clockSamples, clockOffsetMs: Math.max(...clockSamples) };
}

/** The broker's wall clock at `localMs` of this machine's clock, or null before the first frame. */
export function brokerTime(state, localMs) {
  return state.clockOffsetMs === null ? null : localMs + state.clockOffsetMs;
}
