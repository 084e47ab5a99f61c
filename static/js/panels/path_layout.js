/** The layout of the drawing of a pull's path, and the counters of its parts. */

import { shortCount } from "../text/format.js";
import { WAKE_COUNTERS } from "../stats.js";
import { t } from "../text/translate.js";

const ANSWERED = ["pulls_answered_at_once", ...WAKE_COUNTERS];
const sumOfKnown = (counters, names) => {
  const values = names.map((name) => counters[name]).filter((value) => value !== undefined);
  return values.length ? values.reduce((sum, value) => sum + value, 0) : null;
};
const ifKnown = (counters, name, text) => (counters[name] === undefined ? "" : text(shortCount(counters[name])));

/** A change of one of `counters` lights the node; its value is null while the broker has not sent the counters. */
function node(name, means, counters, { sub = () => "", value = null, side = false, alarm = null } = {}) {
  return { name, means, counters, sub, side, alarm, value: value ?? ((all) => sumOfKnown(all, counters)) };
}

export const NODES = {
  received: node(t("received"), t("Pull requests received"), ["pulls_received"], { sub: () => t("pulls") }),
  read: node(t("read"), t("Reads of a queue for a pull; a woken pull reads again"), ["pulls_read"], { sub: () => t("queue reads") }),
  held: node(t("held now"), t("Rows of the pullRequestTable"), ["pulls_held"], {
    value: (all) => sumOfKnown(all, ["holds_now"]), sub: (all) => ifKnown(all, "pulls_held", (n) => t("{0} total", n)) }),
  arrival: node(t("arrival"), t("Messages dispatched to their queues; each may wake held pulls"), ["messages_dispatched"],
    { sub: () => t("dispatched") }),
  woken: node(t("woken"), t("Held pulls woken by an arrival; \"missed\" counts a defect and must be 0"), ["woken_arrival"], {
    sub: (all) => ifKnown(all, "woken_missed_arrival", (n) => t("{0} missed", n)), alarm: (all) => all.woken_missed_arrival > 0 }),
  answered: node(t("answered"), t("Pulls answered, at once or after a hold"), ANSWERED, {
    sub: (all) => ifKnown(all, "messages_delivered", (n) => t("{0} delivered", n)) }),
  atOnce: node(t("answered at once"), t("Pulls answered without a hold: messages were there, or the client did not ask to wait"), ["pulls_answered_at_once"],
    { side: true, sub: () => t("not held") }),
  passedOver: node(t("passed over"), t("Messages that the filter of a held pull rejected; the pull stays held"),
    ["pulls_passed_over", "woken_filter_advanced"], { side: true, value: (all) => sumOfKnown(all, ["pulls_passed_over"]),
      sub: (all) => ifKnown(all, "woken_filter_advanced", (n) => t("{0} filter advanced", n)) }),
  timedOut: node(t("timed out"), t("Held pulls whose deadline passed; with longPollingEnable off, short polls"),
    ["woken_timeout", "woken_short_poll", "woken_shutdown"], { side: true, value: (all) => sumOfKnown(all, ["woken_timeout"]),
      sub: (all) => ifKnown(all, "woken_short_poll", (n) => t("{0} short polls", n)) }),
  released: node(t("released"), t("Held pulls that ended early: the client disconnected or cancelled them, or the broker refused them"),
    ["released"], { side: true, sub: () => t("by client or broker") }),
};

/** An edge sends a pulse `delay` ms after one of its counters changed. */
export const EDGES = {
  receivedRead: { counters: ["pulls_received"], delay: 0 },
  readHeld: { counters: ["pulls_held"], delay: 120 },
  heldArrival: { counters: ["woken_arrival"], delay: 0 },
  arrivalWoken: { counters: ["woken_arrival"], delay: 160 },
  wokenAnswered: { counters: ["woken_arrival", "woken_missed_arrival"], delay: 320 },
  readAtOnce: { counters: ["pulls_answered_at_once"], delay: 120, side: true },
  atOnceAnswered: { counters: ["pulls_answered_at_once"], delay: 280, side: true },
  arrivalPassedOver: { counters: ["pulls_passed_over"], delay: 0, side: true },
  passedOverHeld: { counters: ["pulls_passed_over"], delay: 160, side: true },
  heldTimedOut: { counters: ["woken_timeout", "woken_short_poll", "woken_shutdown", "woken_filter_advanced"], delay: 0, side: true },
  timedOutAnswered: { counters: ["woken_timeout", "woken_short_poll", "woken_shutdown", "woken_filter_advanced"], delay: 200, side: true },
  heldReleased: { counters: ["released"], delay: 0, side: true },
};

export const WIDE = {
  width: 1000, height: 226, nodeWidth: 124, nodeHeight: 54,
  nodes: {
    received: [66, 96], read: [232, 96], held: [416, 96], arrival: [596, 96], woken: [764, 96], answered: [934, 96],
    atOnce: [583, 30], released: [302, 176], passedOver: [506, 176], timedOut: [764, 176],
  },
  edges: {
    receivedRead: "M128 96H168", readHeld: "M294 96H352", heldArrival: "M478 96H532", arrivalWoken: "M658 96H700",
    wokenAnswered: "M826 96H870",
    readAtOnce: "M232 69V46Q232 30 248 30H519", atOnceAnswered: "M645 30H918Q934 30 934 46V67",
    heldReleased: "M392 123V160Q392 176 378 176H366",
    arrivalPassedOver: "M596 123V160Q596 176 582 176H570", passedOverHeld: "M444 176H442Q430 176 430 164V125",
    heldTimedOut: "M410 123V203Q410 217 424 217H670Q684 217 684 203V190Q684 176 698 176H700",
    timedOutAnswered: "M826 176H918Q934 176 934 160V125",
  },
};

export const TALL = {
  width: 372, height: 506, nodeWidth: 138, nodeHeight: 56,
  nodes: {
    received: [80, 34], read: [80, 120], held: [80, 206], arrival: [80, 292], woken: [80, 378], answered: [80, 468],
    atOnce: [270, 120], released: [270, 206], passedOver: [270, 292], timedOut: [270, 378],
  },
  edges: {
    receivedRead: "M80 62V90", readHeld: "M80 148V176", heldArrival: "M80 234V262", arrivalWoken: "M80 320V348",
    wokenAnswered: "M80 406V438",
    readAtOnce: "M149 120H199", atOnceAnswered: "M339 120H348Q360 120 360 132V466Q360 478 348 478H151",
    heldReleased: "M149 198H199",
    arrivalPassedOver: "M149 300H199", passedOverHeld: "M201 284H188Q176 284 176 272V232Q176 220 164 220H151",
    heldTimedOut: "M149 210H158Q166 210 166 218V366Q166 378 178 378H199",
    timedOutAnswered: "M270 406V446Q270 458 258 458H151",
  },
};
