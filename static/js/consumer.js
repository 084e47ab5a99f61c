/**
 * A consumer inside the page: one WebSocket, and one outstanding pull for each queue of a topic, like RocketMQ's push
 * consumer. It uses /ws/v1/consumer (subprotocol rmq.v1.json) and calls its listeners with:
 *
 *   state {text, failed}            its state, as a sentence
 *   held {queueId, holdId, offset}  one of its pulls is in the pullRequestTable
 *   pulled {queueId, hold, messages, at}   a pull was answered; `hold` is null when it was answered at once
 */

import { withBroker } from "./brokers.js";
import { problemSentence, request, topicPath } from "./http.js";
import { backoff, closeReason, socketUrl } from "./socket.js";
import { t } from "./text/translate.js";

const WAIT_MS = 15_000;
const LIMIT = 32;
const PAUSE_MS = 1_000;
const MOST_FAILURES = 5;

export class PageConsumer {
  constructor() {
    this.clientId = `page-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`;
    this.running = false;
    this.topic = "";
    this.queues = new Map();
    this.pulls = new Map();
    this.listeners = new Set();
    this.nextId = 1;
    this.attempt = 0;
    this.run = 0;
  }

  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** How many of its pulls are held now. */
  get heldNow() {
    return [...this.queues.values()].filter((queue) => queue.holdId !== null).length;
  }

  /** Starts at the end of every queue of the topic; creates the topic if it does not exist. */
  async start({ topic, group, filter }) {
    this.stop();
    const run = this.run;
    Object.assign(this, { running: true, topic, group, filter: filter || "*", attempt: 0 });
    this.#showState(t("Reading the queues of {0} …", topic));
    try {
      const queues = await this.#findQueues(topic);
      if (run !== this.run) return;
      this.queues = new Map(queues.map((queue) => [Number(queue.queue_id),
        { offset: Number(queue.max_offset), holdId: null, failures: 0 }]));
      this.#connect(run);
    } catch (error) {
      if (run !== this.run) return;
      this.stop();
      this.#showState(error.message, true);
      throw error;
    }
  }

  stop() {
    this.run += 1;
    this.running = false;
    this.queues = new Map();
    this.pulls.clear();
    this.socket?.close(1000);
    this.socket = null;
    this.#showState("Stopped.");
  }

  async #findQueues(topic) {
    const { topics } = await request("GET", "/topics");
    if (!topics.some((known) => known.topic === topic)) {
      this.#showState(t("Topic {0} does not exist yet; creating it with 4 queues …", topic));
      await request("PUT", topicPath(topic), { queues: 4 });
    }
    return (await request("GET", `${topicPath(topic)}/queues`)).queues;
  }

  #connect(run) {
    const socket = new WebSocket(socketUrl(withBroker("/ws/v1/consumer")), ["rmq.v1.json"]);
    this.socket = socket;
    socket.onopen = () => this.#send({ type: "hello", client_id: this.clientId });
    socket.onmessage = (event) => {
      if (run === this.run) this.#received(JSON.parse(event.data));
    };
    socket.onclose = (event) => {
      if (run === this.run) this.#closed(event, run);
    };
  }

  #closed(event, run) {
    this.pulls.clear();
    for (const queue of this.queues.values()) queue.holdId = null;
    const wait = backoff(this.attempt);
    this.attempt += 1;
    this.#showState(t("Not connected: {0}. The consumer reconnects by itself and continues at its last offset.", closeReason(event)), true);
    window.setTimeout(() => {
      if (run === this.run) this.#connect(run);
    }, wait);
  }

  #send(frame) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  #received(frame) {
    const handlers = { welcome: () => this.#welcomed(), held: () => this.#held(frame),
      pulled: () => this.#pulled(frame), problem: () => this.#problem(frame) };
    handlers[frame.type]?.();
  }

  #welcomed() {
    this.attempt = 0;
    this.#showState(t("Connected as {0}; pulling …", this.clientId));
    for (const queueId of this.queues.keys()) this.#pull(queueId);
  }

  #pull(queueId) {
    const queue = this.queues.get(queueId);
    if (!queue || !this.running) return;
    const id = `pull-${this.nextId}`;
    this.nextId += 1;
    this.pulls.set(id, queueId);
    queue.holdId = null;
    this.#send({ type: "pull", id, topic: this.topic, queue_id: queueId, offset: queue.offset, limit: LIMIT,
      wait_ms: WAIT_MS, filter: this.filter, group: this.group });
  }

  #held(frame) {
    const queue = this.queues.get(this.pulls.get(frame.id));
    if (!queue) return;
    queue.holdId = Number(frame.hold_id);
    queue.failures = 0;
    this.#showState("");
    this.#notify("held", { queueId: this.pulls.get(frame.id), holdId: queue.holdId, offset: queue.offset });
  }

  #pulled(frame) {
    const queueId = this.pulls.get(frame.id);
    const queue = this.queues.get(queueId);
    if (!queue) return;
    this.pulls.delete(frame.id);
    const messages = frame.messages ?? [];
    queue.offset = Number(frame.next_offset ?? queue.offset);
    queue.failures = 0;
    queue.holdId = null;
    this.#notify("pulled", { queueId, hold: frame.hold ?? null, messages, at: performance.now() });
    // After an empty answer that was not held, wait: pulling again at once would loop without pause.
    if (messages.length || frame.hold) this.#pull(queueId);
    else this.#pullLater(queueId, PAUSE_MS);
    this.#showState("");
  }

  #problem(frame) {
    const sentence = problemSentence(frame) ?? problemSentence(frame.problem) ?? t("The broker refused the request and gave no reason.");
    const queueId = this.pulls.get(frame.id);
    const queue = this.queues.get(queueId);
    this.#showState(sentence, true);
    if (!queue) return;
    this.pulls.delete(frame.id);
    queue.holdId = null;
    queue.failures += 1;
    if (queue.failures <= MOST_FAILURES) this.#pullLater(queueId, PAUSE_MS * queue.failures);
  }

  #pullLater(queueId, wait) {
    const run = this.run;
    window.setTimeout(() => {
      if (run === this.run) this.#pull(queueId);
    }, wait);
  }

  #showState(text, failed = false) {
    this.#notify("state", { text, failed });
  }

  #notify(kind, detail) {
    for (const listener of [...this.listeners]) listener(kind, detail);
  }
}
