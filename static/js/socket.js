/**
 * A page's connection to /ws/v1/events. It reconnects by itself (exponential backoff with jitter), detects silence, and
 * requests a snapshot when the page asks for one. The reducer interprets the frames.
 *
 * States: "live" (frames arrive), "stale" (connected, but no frame for STALE_AFTER_MS, or the engine is unavailable),
 * "disconnected".
 */

import { withBroker } from "./brokers.js";
import { serverText } from "./text/server/texts.js";
import { t } from "./text/translate.js";

export const STALE_AFTER_MS = 5_000;
const DEAD_AFTER_MS = 20_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 15_000;
const SNAPSHOT_AGAIN_MS = 2_000;

/** The wait in ms before attempt n (from 0): between half and all of an exponentially growing bound. */
export function backoff(attempt, random = Math.random) {
  const bound = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(attempt, 10));
  return bound / 2 + (bound / 2) * random();
}

export function socketUrl(path) {
  return `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}${path}`;
}

export class EventsSocket {
  /** `subscription` narrows the stream: {panels, group}; without it the stream is complete. */
  constructor({ onFrame, onStatus, subscription = null, path = withBroker("/ws/v1/events") }) {
    this.path = path;
    this.subscription = subscription;
    this.onFrame = onFrame;
    this.onStatus = onStatus;
    this.socket = null;
    this.attempt = 0;
    this.retryTimer = 0;
    this.retryAt = null;
    this.lastFrameAt = 0;
    this.requestedAt = 0;
    this.engineUnavailable = false;
    this.reason = "";
    this.status = "disconnected";
    window.setInterval(() => this.#watch(), 500);
    window.addEventListener("online", () => this.reconnectNow());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && this.status === "disconnected") this.reconnectNow();
    });
  }

  connect() {
    window.clearTimeout(this.retryTimer);
    this.retryAt = null;
    const socket = new WebSocket(socketUrl(this.path));
    this.socket = socket;
    socket.onopen = () => {
      this.lastFrameAt = Date.now();
      if (this.subscription) this.#send({ type: "subscribe", ...this.subscription });
    };
    socket.onmessage = (event) => this.#received(event.data);
    socket.onclose = (event) => {
      if (this.socket === socket) this.#closed(event);
    };
  }

  reconnectNow() {
    if (this.status !== "disconnected" && this.socket?.readyState === WebSocket.OPEN) return;
    this.attempt = 0;
    const old = this.socket;
    this.socket = null;
    old?.close();
    this.connect();
  }

  /** Requests a snapshot, unless one was requested within the last 2 s. */
  requestSnapshot() {
    const now = Date.now();
    if (this.engineUnavailable || now - this.requestedAt < SNAPSHOT_AGAIN_MS) return;
    this.requestedAt = now;
    this.#send({ type: "snapshot" });
  }

  #send(frame) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  #received(text) {
    let frame;
    try {
      frame = JSON.parse(text);
    } catch {
      return; // not a frame; without a valid one the page becomes stale
    }
    this.lastFrameAt = Date.now();
    if (frame.type === "pong") return;
    this.attempt = 0;
    this.engineUnavailable = frame.type === "lost";
    this.onFrame(frame, Date.now());
    if (this.engineUnavailable) this.#setStatus("stale", serverText(String(frame.reason || "")) || t("the broker's engine is unavailable"));
    else if (frame.type === "snapshot" || this.status === "live") this.#setStatus("live", "");
    else if (frame.type === "delta" && this.status === "stale") this.#setStatus("live", "");
  }

  #closed(event) {
    const wait = backoff(this.attempt);
    this.attempt += 1;
    this.retryAt = Date.now() + wait;
    this.retryTimer = window.setTimeout(() => this.connect(), wait);
    this.#setStatus("disconnected", closeReason(event));
  }

  #watch() {
    if (this.socket?.readyState !== WebSocket.OPEN || !this.lastFrameAt) return;
    const quiet = Date.now() - this.lastFrameAt;
    if (quiet > DEAD_AFTER_MS) {
      const dead = this.socket;
      this.socket = null; // its close event may fire only minutes later
      dead.close();
      this.#closed({ code: 1006 });
    } else if (quiet > STALE_AFTER_MS && this.status === "live") {
      this.#setStatus("stale", t("no data from the broker for 5 s"));
      this.#send({ type: "ping" });
    }
  }

  #setStatus(status, reason) {
    if (this.status === status && this.reason === reason && status !== "disconnected") return;
    this.status = status;
    this.reason = reason;
    this.onStatus(status, reason, this.retryAt);
  }
}

/** The reason for a close code, as a clause. */
export function closeReason(event) {
  const reason = {
    1012: t("the web server is restarting"),
    4401: t("you are not signed in"),
    4403: t("your token does not allow this"),
    4408: t("the connection was idle for too long"),
    4429: t("too many connections, or this page reads too slowly"),
  }[event.code];
  return reason ?? t("the web server does not answer");
}
