/** A small line of the last values of one number; the trends of lags, which it draws. */

import { request } from "../http.js";
import { t } from "../text/translate.js";

const WIDTH = 64;
const HEIGHT = 18;
const SVG = "http://www.w3.org/2000/svg";
const MINUTE_MS = 60_000;
const MOST_MINUTES = 60;
const MOST_ASKED = 50; // groups of one request; the API answers at most 100, and a query has at most 16 KiB
const SOON_MS = 100;
const RETRY_MS = 60_000;

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
    const most = Math.max(1, ...known);
    const step = WIDTH / Math.max(1, known.length - 1);
    const points = known.length < 2 ? "" : known.map((value, i) => `${(i * step).toFixed(1)},${(HEIGHT - 1 - (value / most) * (HEIGHT - 2)).toFixed(1)}`).join(" ");
    if (this.points === points && this.label === label) return;
    Object.assign(this, { points, label });
    this.line.setAttribute("points", points);
    this.node.setAttribute("aria-label", label);
    this.node.dataset.trend = known.length < 2 || known[0] === last ? "level" : known[0] < last ? "up" : "down";
  }
}

/** Adds the lag of now, null if it is unknown, to a trend: the last value of each minute is kept. */
export function addLag(trend, minute, lag) {
  const { values } = trend;
  const gap = values.length ? Math.min(Math.max(0, minute - trend.last), MOST_MINUTES) : 1;
  for (let i = 1; i < gap; i += 1) values.push(null);
  if (gap) values.push(lag);
  else values[values.length - 1] = lag;
  trend.last = Math.max(minute, trend.last ?? minute);
  values.splice(0, values.length - MOST_MINUTES);
}

/** Puts the lags of the history, the first one of the minute `first`, before what the page saw itself. */
export function addPast(trend, first, lags) {
  const own = trend.last - trend.values.length + 1;
  const past = [];
  for (let minute = trend.last - MOST_MINUTES + 1; minute < own; minute += 1) past.push(lags[minute - first] ?? null);
  trend.values.unshift(...past);
}

/** The lag of each group in the last hour, one value a minute: from the history, and then as the page sees it. */
export class LagTrends {
  /** `changed` is called when lags of the past have arrived. */
  constructor(changed) {
    Object.assign(this, { changed, trends: new Map(), asked: new Set(), wanted: new Set(), timer: 0, notBefore: 0 });
  }

  /** Adds the lags of an answer; groups that it does not have are forgotten. `lagOf` returns null if a lag is unknown. */
  add(groups, lagOf, nowMs) {
    const known = new Set(groups.map(({ group }) => group));
    for (const group of this.trends.keys()) {
      if (known.has(group)) continue;
      this.trends.delete(group);
      this.asked.delete(group);
    }
    for (const group of groups) {
      if (!this.trends.has(group.group)) this.trends.set(group.group, { last: undefined, values: [] });
      addLag(this.trends.get(group.group), Math.floor(nowMs / MINUTE_MS), lagOf(group));
    }
  }

  of(group) {
    return this.trends.get(group)?.values ?? [];
  }

  /** Asks for the past of a group that is in sight, together with the others of this moment. */
  want(group) {
    if (this.asked.has(group) || this.wanted.size >= MOST_ASKED || Date.now() < this.notBefore) return;
    this.wanted.add(group);
    this.timer ||= setTimeout(() => this.#ask(), SOON_MS);
  }

  async #ask() {
    this.timer = 0;
    const names = [...this.wanted];
    this.wanted.clear();
    for (const name of names) this.asked.add(name);
    try {
      const { groups, from_ms: fromMs } = await request("GET", `/history/lags?groups=${names.map(encodeURIComponent).join(",")}`);
      for (const { group, lags } of groups) {
        const trend = this.trends.get(group);
        if (trend) addPast(trend, Math.floor(fromMs / MINUTE_MS), lags);
      }
      this.changed();
    } catch { // the trends go on from now; the past is asked for again later
      for (const name of names) this.asked.delete(name);
      this.notBefore = Date.now() + RETRY_MS;
    }
  }
}
