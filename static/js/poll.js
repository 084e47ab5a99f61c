/** Polls the API: at a modest rate, sooner after an event, and not at all while the page is hidden. */

const EVERY_MS = 2_000;
const SOON_MS = 250;
const SHARE_OF_TIME = 5; // slow answers (a large list, a slow machine) are requested less often

export class Poller {
  /** `ask()` promises an answer. `onAnswer` receives the answer, `onError` the error.
   * The pause between two polls is `everyMs` at least. */
  constructor({ ask, onAnswer, onError, everyMs = EVERY_MS }) {
    Object.assign(this, { everyMs, ask, onAnswer, onError, timer: 0, due: Infinity, asking: false, wanted: false });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.soon(0);
    });
  }

  start() {
    this.#poll();
  }

  /** Polls after `wait` ms at the latest, whatever the rate. Several calls cause one poll. */
  soon(wait = SOON_MS) {
    if (this.asking) this.wanted = true;
    else if (performance.now() + wait < this.due) this.#in(wait);
  }

  #in(wait) {
    window.clearTimeout(this.timer);
    this.due = performance.now() + wait;
    this.timer = window.setTimeout(() => this.#poll(), wait);
  }

  async #poll() {
    if (document.hidden) {
      this.due = Infinity;
      return;
    }
    this.asking = true;
    this.wanted = false;
    const began = performance.now();
    try {
      this.onAnswer(await this.ask());
    } catch (error) {
      this.onError(error);
    }
    this.asking = false;
    this.#in(this.wanted ? SOON_MS : Math.max(this.everyMs, (performance.now() - began) * SHARE_OF_TIME));
  }
}
