/**
 * What a page of clients and groups knows of the stream /ws/v1/events (panel "clients"), and how each frame changes
 * it. Pure, like reducer.js: `reduce(state, frame, receivedAt)` returns a new state.
 */

import { clock } from "./reducer.js";

export const MAX_EVENTS = 200;
/** Of messages that groups could not consume, which may be so many that they would push everything else out. */
export const MAX_RETRIES = 100;
const RETRIES = new Set(["message_sent_back", "message_dead_lettered"]);

export function initialState() {
  return { broker: null, epoch: null, seq: null, wallMs: null, receivedAt: null, clockSamples: [], clockOffsetMs: null,
    events: [], needsSnapshot: true };
}

/**
 * `state` after `frame`, which arrived at `receivedAt` (ms of this machine's clock). `events` are newest first; with a
 * `group` they are its own alone, also before the stream has been narrowed to it.
 */
export function reduce(state, frame, receivedAt, group = "") {
  const fresh = (frame?.client_events ?? []).filter((event) => !group || event.group === group)
    .map((event) => ({ ...event, broker: frame.broker }));
  if (frame?.type === "snapshot") return withSnapshot(state, frame, receivedAt, fresh);
  if (frame?.type === "lost") return { ...state, needsSnapshot: true };
  return frame?.type === "delta" ? withDelta(state, frame, receivedAt, fresh) : state;
}

function withSnapshot(state, frame, receivedAt, fresh) {
  const before = state.broker === frame.broker && state.epoch === frame.epoch ? state : initialState();
  return { ...before, ...clock(before, frame.wall_ms, receivedAt), broker: frame.broker, epoch: frame.epoch,
    seq: frame.seq, events: merge(before.events, fresh), needsSnapshot: false };
}

function withDelta(state, delta, receivedAt, fresh) {
  const follows = state.seq !== null && delta.epoch === state.epoch && delta.broker === state.broker
    && delta.seq_from <= state.seq + 1;
  if (!follows || state.needsSnapshot) return state.needsSnapshot ? state : { ...state, needsSnapshot: true };
  if (delta.seq_to < state.seq) return state;
  return { ...state, ...clock(state, delta.wall_ms, receivedAt), seq: Math.max(state.seq, delta.seq_to),
    events: merge(state.events, fresh) };
}

/** The newest event after which members, queues or offsets may be others. */
export const newestChange = (events) => events.find(({ type }) => !RETRIES.has(type));

/** Of `events`, newest first, at most MAX_RETRIES of messages, and MAX_EVENTS others. */
function bounded(events) {
  let retries = 0;
  let others = 0;
  return events.filter(({ type }) => (RETRIES.has(type) ? ++retries <= MAX_RETRIES : ++others <= MAX_EVENTS));
}

/** Newest first, each once, bounded. */
function merge(known, fresh) {
  if (!fresh.length) return known;
  const seen = new Set(known.map((event) => event.seq));
  const news = fresh.filter((event) => !seen.has(event.seq));
  if (!news.length) return known;
  return bounded([...news, ...known].sort((a, b) => b.seq - a.seq));
}

/** The events of several brokers' streams as one list; their clocks are taken as they are. */
export function ofAll(states) {
  const [first, ...others] = states.map((state) => state.events);
  if (others.every((events) => !events.length)) return first;
  return bounded([first, ...others].flat().sort((a, b) => b.wall_ms - a.wall_ms || b.seq - a.seq));
}
