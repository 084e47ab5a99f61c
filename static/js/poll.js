/** Asks the API again and again: at a modest rate, sooner when something happened, not at all while nobody looks. */

const EVERY_MS = 2_000;
const SOON_MS = 250;
const SHARE_OF_TIME = 5; // an answer that takes long (a large list, a slow machine) is asked for less often

export class Poller {
  /** `ask()` promises an answer, which `onAnswer` gets; `onError` gets what went wrong. */
  constructor({ ask, onAnswer, onError }) {
    Object.assign(this, { ask, onAnswer, onError, timer: 0, due: Infinity, asking: false, wanted: false });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.soon(0);
    });
  }

  start() {
    this.#look();
  }

  /** Something has changed: look within a moment, whatever the rate. Several such wishes are one. */
  soon(wait = SOON_MS) {
    if (this.asking) this.wanted = true;
    else if (performance.now() + wait < this.due) this.#in(wait);
  }

  #in(wait) {
    window.clearTimeout(this.timer);
    this.due = performance.now() + wait;
    this.timer = window.setTimeout(() => this.#look(), wait);
  }

  async #look() {
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
    this.#in(this.wanted ? SOON_MS : Math.max(EVERY_MS, (performance.now() - began) * SHARE_OF_TIME));
  }
}
