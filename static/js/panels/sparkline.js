/** A small line of the last values of one number. */

import { t } from "../text/translate.js";

const WIDTH = 64;
const HEIGHT = 18;
const SVG = "http://www.w3.org/2000/svg";

export class Sparkline {
  constructor() {
    this.node = document.createElementNS(SVG, "svg");
    this.line = document.createElementNS(SVG, "polyline");
    for (const [name, value] of [["class", "sparkline"], ["viewBox", `0 0 ${WIDTH} ${HEIGHT}`], ["width", WIDTH], ["height", HEIGHT], ["role", "img"]]) {
      this.node.setAttribute(name, value);
    }
    this.node.append(this.line);
  }

  /** Draws the values, the oldest first; null is unknown and left out. `what` is their name, for screen readers. */
  show(values, what) {
    const known = values.filter((value) => value !== null);
    const last = known.at(-1);
    const label = known.length < 2 ? t("{0}: no trend yet", what) : t("{0}: from {1} to {2}", what, known[0], last);
    if (this.values === values.length && this.label === label && this.last === last) return;
    Object.assign(this, { values: values.length, label, last });
    const most = Math.max(1, ...known);
    const step = WIDTH / Math.max(1, known.length - 1);
    this.line.setAttribute("points", known.length < 2 ? "" : known.map((value, i) => `${(i * step).toFixed(1)},${(HEIGHT - 1 - (value / most) * (HEIGHT - 2)).toFixed(1)}`).join(" "));
    this.node.setAttribute("aria-label", label);
    this.node.dataset.trend = known.length < 2 || known[0] === last ? "level" : known[0] < last ? "up" : "down";
  }
}
