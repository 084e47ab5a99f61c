/**
 * The state of a page of clients and groups, built from the frames of /ws/v1/events (panel "clients"). Pure, like
 * reducer.js: `reduce(state, frame, receivedAt)` returns a new state.
 */

import { clock } from "./reducer.js";

export const MAX_EVENTS = 200;
/** Bound on retry and dead letter events, so that many of them do not push the others out. */
export const MAX_RETRIES = 100;
const RETRIES = new Set(["message_sent_back", "message_dead_lettered"]);

export function initialState() {
  return { broker: null, epoch: null, seq: null, wallMs: null, receivedAt: null, clockSamples: [], clockOffsetMs: null,
    events: [], needsSnapshot: true };
}

/**
 * The state after `frame`, which arrived at `receivedAt` (ms of this machine's clock). `events` are newest first. With
 * `group` only its events are kept, even before the stream is narrowed to it.
 */
export function reduce(state, frame, receivedAt, group = "") {
  const fresh = (frame?.client_events ?? []).filter((event) => !group || event.group === group)
    .map((event) => ({ ...event, broker: frame.broker }));
  if (frame?.type === "snapshot") return withSnapshot(state, frame, receivedAt, fresh);
  if (frame?.type === "lost") return { ...state, needsSnapshot: true };
  return frame?.type === "delta" ? withDelta(state, frame, receivedAt, fresh) : state;
}

function withSnapshot(state, frame, receivedAt, fresh) {
  const base = state.broker === frame.broker && state.epoch === frame.epoch ? state : initialState();
  return { ...base, ...clock(base, frame.wall_ms, receivedAt), broker: frame.broker, epoch: frame.epoch,
    seq: frame.seq, events: merge(base.events, fresh), needsSnapshot: false };
}

function withDelta(state, delta, receivedAt, fresh) {
  const follows = state.seq !== null && delta.epoch === state.epoch && delta.broker === state.broker
    && delta.seq_from <= state.seq + 1;
  if (!follows || state.needsSnapshot) return state.needsSnapshot ? state : { ...state, needsSnapshot: true };
  if (delta.seq_to < state.seq) return state;
  return { ...state, ...clock(state, delta.wall_ms, receivedAt), seq: Math.max(state.seq, delta.seq_to),
    events: merge(state.events, fresh) };
}

/** The newest event that may have changed members, queues or offsets. */
export const newestChange = (events) => events.find(({ type }) => !RETRIES.has(type));

/** The first MAX_RETRIES retry and dead letter events and the first MAX_EVENTS others of `events`. */
function bounded(events) {
  let retries = 0;
  let others = 0;
  return events.filter(({ type }) => (RETRIES.has(type) ? ++retries <= MAX_RETRIES : ++others <= MAX_EVENTS));
}

/** Both lists as one: newest first, without duplicates, bounded. */
function merge(known, fresh) {
  if (!fresh.length) return known;
  const seen = new Set(known.map((event) => event.seq));
  const added = fresh.filter((event) => !seen.has(event.seq));
  if (!added.length) return known;
  return bounded([...added, ...known].sort((a, b) => b.seq - a.seq));
}

/** The events of several brokers as one list by time; differences between the brokers' clocks are not corrected. */
export function mergeStreams(states) {
  const [first, ...others] = states.map((state) => state.events);
  if (others.every((events) => !events.length)) return first;
  return bounded([first, ...others].flat().sort((a, b) => b.wall_ms - a.wall_ms || b.seq - a.seq));
}
