/** "Show me": first a pull is held and woken, with a sentence for each thing that happens; then to a stuck group. */

import { el } from "../dom.js";
import { cause, count, dateTimeSeconds, micros, millis, plural } from "../text/format.js";
import { serverNow } from "../clock.js";
import { request } from "../http.js";
import { groupHref } from "../links.js";
import { t } from "../text/translate.js";

const PUBLISH_AFTER_MS = 2_000;
const PATIENCE_MS = 8_000;
const WAKE_FIGURE_WITHIN_MS = 1_500;
const STUCK_GROUP = "stuck-mirror"; // of dashboard/demo.py

export class Tour {
  constructor({ consumer, publish, steps, next, button, wakeups, fields }) {
    Object.assign(this, { consumer, publish, steps, next, button, wakeups, fields });
  }

  async start() {
    this.button.disabled = true;
    this.steps.replaceChildren();
    this.next.replaceChildren();
    try {
      await this.#run({ ...this.fields(), filter: "*" });
      await this.#leadToStuckGroup();
    } catch (error) {
      this.#step(error.message, { failed: true });
    } finally {
      this.button.disabled = false;
    }
  }

  async #run({ topic, group, filter }) {
    const holds = await this.#holdPulls({ topic, group, filter });
    this.#step(plural(holds, "{0} pull of this page is held now, one for each queue of {1}. There is no new message, so the broker does not answer. They are marked at their left edge in the pullRequestTable.", "{0} pulls of this page are held now, one for each queue of {1}. There is no new message, so the broker does not answer. They are marked at their left edge in the pullRequestTable.", topic));
    this.#step(t("This page publishes a message in 2 seconds …"));
    await pause(PUBLISH_AFTER_MS);
    const answered = this.#until((kind, detail) => kind === "pulled" && detail.messages.length ? detail : null,
      t("The message was stored, but no pull of this page was answered within 8 s. See its row in the held pulls or the wake-ups."));
    answered.catch(() => {}); // reported below, or hidden by an error that came first
    const sentAt = performance.now();
    const stored = await this.publish.publish({ topic, body: t("Hello at {0}", dateTimeSeconds(serverNow())) });
    this.#step(t("Published: the broker stored it in {0}@{1}, at offset {2}.", stored.topic, stored.queue_id, count(stored.queue_offset)));
    const pulled = await answered;
    this.#step(await this.#wakeSentence(pulled, topic, sentAt), { good: true });
    const next = Number(pulled.messages.at(-1).queue_offset) + 1;
    this.#step(t("The consumer pulls again at once, at offset {0} of {1}@{2}, and is held again. That is long polling. It continues until you press Stop.", count(next), topic, pulled.queueId));
  }

  /** The second step: the page of a group that stands still, the one of the demo if it runs. */
  async #leadToStuckGroup() {
    const stalled = (await request("GET", "/groups")).groups.filter((group) => group.state === "stalled").map((group) => group.group);
    const group = stalled.includes(STUCK_GROUP) ? STUCK_GROUP : stalled[0];
    this.next.replaceChildren(...(group
      ? [t("Step 2: the consumer of this page works; the group {0} stands still. ", group),
        el("a", { href: groupHref(group) }, t("Why is its consumer waiting?"))]
      : [t("Step 2: see why a consumer waits. No group stands still now; the command "), el("code", {}, "make demo"),
        t(" starts one that does, {0}. ", STUCK_GROUP), el("a", { href: "/groups" }, t("All groups"))]));
  }

  /** Starts the consumer unless it runs; waits until all of its pulls are held, or after 8 s until at least one is. */
  async #holdPulls(fields) {
    const { consumer } = this;
    const runs = consumer.running && consumer.topic === fields.topic && consumer.filter === fields.filter;
    const all = () => (consumer.queues.size && consumer.heldNow === consumer.queues.size ? consumer.heldNow : null);
    if (!runs) await consumer.start(fields);
    if (all()) return all();
    try {
      return await this.#until(all, "");
    } catch {
      if (consumer.heldNow) return consumer.heldNow;
      throw new Error(t("No pull of this page was held within 8 s; the line below shows the state of the consumer."));
    }
  }

  async #wakeSentence({ queueId, hold, at }, topic, sentAt) {
    const trip = t("{0} from Publish to this page", millis(Math.max(0, at - sentAt)));
    if (!hold) return t("The message was returned by a pull that was answered at once, without a hold; {0}.", trip);
    const wakeUs = await this.#wakeFigure(Number(hold.id));
    const inside = wakeUs ? t("{0} after the message arrived in the broker, ", micros(wakeUs)) : "";
    return t("The pull held on {0}@{1} was woken by {2} after {3}: ", topic, queueId, cause(hold.wake_cause).word, millis(hold.held_ms))
      + `${inside}${trip}.`;
  }

  /** The wake-up latency that the broker measured; it is in the next delta. */
  async #wakeFigure(holdId) {
    for (const until = performance.now() + WAKE_FIGURE_WITHIN_MS; performance.now() < until; await pause(50)) {
      const wakeup = this.wakeups().find((entry) => entry.hold_id === holdId);
      if (wakeup) return wakeup.wake_us;
    }
    return null;
  }

  #until(find, sentence) {
    return new Promise((resolve, reject) => {
      const timer = window.setTimeout(() => {
        unlisten();
        reject(new Error(sentence));
      }, PATIENCE_MS);
      const unlisten = this.consumer.listen((kind, detail) => {
        const result = find(kind, detail);
        if (result === null) return;
        window.clearTimeout(timer);
        unlisten();
        resolve(result);
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
