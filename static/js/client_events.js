/**
 * What a page of clients and groups knows of the stream /ws/v1/events (panel "clients"), and how each frame changes
 * it. Pure, like reducer.js: `reduce(state, frame, receivedAt)` returns a new state.
 */

import { clock } from "./reducer.js";

export const MAX_EVENTS = 200;

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

/** Newest first, each once, at most MAX_EVENTS. */
function merge(known, fresh) {
  if (!fresh.length) return known;
  const seen = new Set(known.map((event) => event.seq));
  const news = fresh.filter((event) => !seen.has(event.seq));
  if (!news.length) return known;
  return [...news, ...known].sort((a, b) => b.seq - a.seq).slice(0, MAX_EVENTS);
}

/** The events of several brokers' streams as one list; their clocks are taken as they are. */
export function ofAll(states) {
  const [first, ...others] = states.map((state) => state.events);
  if (others.every((events) => !events.length)) return first;
  return [first, ...others].flat().sort((a, b) => b.wall_ms - a.wall_ms || b.seq - a.seq).slice(0, MAX_EVENTS);
}
