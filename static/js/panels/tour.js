/** "Show me": a hold is made and woken before the reader's eyes, each step with its sentence. */

import { el } from "../dom.js";
import { cause, count, micros, millis } from "../format.js";

const PUBLISH_AFTER_MS = 2_000;
const PATIENCE_MS = 8_000;
const WAKE_FIGURE_WITHIN_MS = 1_500;

export class Tour {
  constructor({ consumer, publish, steps, button, wakeups, fields }) {
    Object.assign(this, { consumer, publish, steps, button, wakeups, fields });
  }

  async start() {
    this.button.disabled = true;
    this.steps.replaceChildren();
    try {
      await this.#run({ ...this.fields(), filter: "*" });
    } catch (error) {
      this.#step(error.message, { failed: true });
    } finally {
      this.button.disabled = false;
    }
  }

  async #run({ topic, group, filter }) {
    const holds = await this.#becomeHeld({ topic, group, filter });
    this.#step(`${holds === 1 ? "One pull of this page is" : `${holds} pulls of this page are`} held now, one for each queue of `
      + `${topic}. Nothing is new, so the broker does not answer: see them in the pullRequestTable, marked at their left edge.`);
    this.#step("In 2 seconds this page publishes a message …");
    await pause(PUBLISH_AFTER_MS);
    const answered = this.#until((kind, what) => kind === "pulled" && what.messages.length ? what : null,
      "The message was stored, but no pull of this page was answered within 8 s. Its line in the holds or wake-ups says why.");
    answered.catch(() => {}); // reported below, or hidden by an error that came first
    const sentAt = performance.now();
    const stored = await this.publish.publish({ topic, body: `Hello at ${new Date().toLocaleTimeString()}` });
    this.#step(`Published: the broker stored it in ${stored.topic}@${stored.queue_id}, at offset ${count(stored.queue_offset)}.`);
    const pulled = await answered;
    this.#step(await this.#howItWoke(pulled, topic, sentAt), { good: true });
    const next = Number(pulled.messages.at(-1).queue_offset) + 1;
    this.#step(`The consumer asks again at once, for offset ${count(next)} of ${topic}@${pulled.queueId}, and is held again. `
      + "That is long polling; it goes on until you press Stop.");
  }

  /** Start the consumer, unless it runs there already; wait until all of its pulls, or after a while some, are held. */
  async #becomeHeld(wanted) {
    const { consumer } = this;
    const runs = consumer.running && consumer.topic === wanted.topic && consumer.filter === wanted.filter;
    const all = () => (consumer.queues.size && consumer.heldNow === consumer.queues.size ? consumer.heldNow : null);
    if (!runs) await consumer.start(wanted);
    if (all()) return all();
    try {
      return await this.#until(all, "");
    } catch {
      if (consumer.heldNow) return consumer.heldNow;
      throw new Error("No pull of this page was held within 8 s; the line below says what the consumer is doing.");
    }
  }

  async #howItWoke({ queueId, hold, at }, topic, sentAt) {
    const trip = `${millis(Math.max(0, at - sentAt))} from Publish to this page`;
    if (!hold) return `The message came with a pull that was answered at once, without being held; ${trip}.`;
    const wakeUs = await this.#wakeFigure(Number(hold.id));
    const inside = wakeUs ? `${micros(wakeUs)} after it arrived in the broker, ` : "";
    return `The pull held on ${topic}@${queueId} was woken by ${cause(hold.wake_cause).word} after ${millis(hold.held_ms)}: `
      + `${inside}${trip}.`;
  }

  /** The broker's own figure comes with the next delta. */
  async #wakeFigure(holdId) {
    for (const until = performance.now() + WAKE_FIGURE_WITHIN_MS; performance.now() < until; await pause(50)) {
      const found = this.wakeups().find((wakeup) => wakeup.hold_id === holdId);
      if (found) return found.wake_us;
    }
    return null;
  }

  #until(find, sentence) {
    return new Promise((resolve, reject) => {
      const timer = window.setTimeout(() => {
        unlisten();
        reject(new Error(sentence));
      }, PATIENCE_MS);
      const unlisten = this.consumer.listen((kind, what) => {
        const found = find(kind, what);
        if (found === null) return;
        window.clearTimeout(timer);
        unlisten();
        resolve(found);
      });
    });
  }

  #step(text, { good = false, failed = false } = {}) {
    this.steps.append(el("li", { "data-good": good, "data-failed": failed }, text));
  }
}

const pause = (ms) => new Promise((resolve) => {
  window.setTimeout(resolve, ms);
});
