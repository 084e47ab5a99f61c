/** Who the broker is, whether the page is up to date, and the switch of longPollingEnable. */

import { isAttached } from "../pages/attached.js";
import { dialog } from "../dialogs.js";
import { switchEffect } from "../text/explain.js";
import { panel, setAttribute, setText } from "../dom.js";
import { UNKNOWN, bucketText, count, estimate, isKnown, micros, plural, rate, shortCount, span } from "../text/format.js";
import { LEAST_FOR_PERCENTILES, WAKE_COUNTERS, counterRate, histogramTotal, percentile, singleValues } from "../stats.js";
import { brokerPicker } from "../brokers.js";
import { request, requestOfAll } from "../http.js";
import { liveState } from "./live_state.js";
import { t } from "../text/translate.js";

const REQUEST_EXPIRES_MS = 5_000;

export function statusPanel({ reconnect }) {
  const { part } = panel("status");
  const banner = document.querySelector('[data-part="problem-banner"]');
  const problem = document.querySelector('[data-part="problem"]');
  const damageBanner = document.querySelector('[data-part="damage-banner"]');
  const damage = document.querySelector('[data-part="damage"]');
  const toggle = part("long-polling");
  const broker = { epoch: null, startedAtMs: null, about: "" };
  const requested = { value: null, until: 0 };
  const showLive = liveState(part, reconnect);
  brokerPicker(part, (path) => requestOfAll("GET", path), { all: false });
  let latest = null;
  const ask = dialog("long-polling-dialog", {
    opened() {
      const on = toggle.getAttribute("aria-checked") !== "true";
      setText(ask.part("question"), t("Switch longPollingEnable {0}?", on ? t("on") : t("off")));
      setText(ask.part("effect"), switchEffect(on, latest));
    },
    submit: () => setLongPolling(toggle.getAttribute("aria-checked") !== "true"),
  });
  toggle.addEventListener("click", () => ask.open());

  async function setLongPolling(value) {
    Object.assign(requested, { value, until: Date.now() + REQUEST_EXPIRES_MS });
    note(t("switching {0} …", value ? t("on") : t("off")));
    try {
      await request("PATCH", "/broker/config", { longPollingEnable: value });
    } catch (error) {
      requested.value = null;
      note(error.message, true);
    }
  }

  function note(text, failed = false) {
    setText(part("long-polling-note"), text);
    part("long-polling-note").toggleAttribute("data-failed", failed);
  }

  /** Reads what does not change while the broker runs from the API, once for each epoch. */
  async function readBroker(epoch) {
    Object.assign(broker, { epoch, startedAtMs: null, about: "" });
    try {
      const answer = await request("GET", "/broker");
      if (broker.epoch !== epoch) return;
      if (isKnown(answer.started_at_ms)) broker.startedAtMs = Number(answer.started_at_ms);
      broker.about = [answer.version && `${isAttached ? t("copied by GlassMQ") : t("version")} ${answer.version}`, t("epoch {0}", epoch),
        answer.store_path && t("store {0}", answer.store_path)].filter(Boolean).join(t(", "));
    } catch {
      broker.startedAtMs = null; // shown as unknown; the next epoch asks again
    }
  }

  function figure(name, text) {
    setText(part(name), text);
    part(name).classList.toggle("is-unknown", text === UNKNOWN);
  }

  function showLongPolling({ state, live, localNow }) {
    const known = state.longPollingEnable !== null;
    toggle.disabled = !known || !live;
    setAttribute(toggle, "aria-checked", state.longPollingEnable === true);
    setText(part("long-polling-state"), known ? (state.longPollingEnable ? t("on") : t("off")) : UNKNOWN);
    if (requested.value === null) return;
    if (state.longPollingEnable === requested.value) {
      requested.value = null;
      const brief = state.shortPollingTimeMills === null ? "" : t(" ({0} ms)", count(state.shortPollingTimeMills));
      note(state.longPollingEnable ? "" : t("pulls are held for shortPollingTimeMills{0} only", brief));
    } else if (localNow > requested.until) {
      requested.value = null;
      note(t("the broker did not apply the change"), true);
    }
  }

  /** Damage stays shown as long as its copies are in the store's quarantine, or segments are missing. */
  function showDamage(counters) {
    const ranges = counters?.damaged_ranges_now ?? 0;
    damageBanner.hidden = !ranges;
    if (ranges) {
      setText(damage, plural(ranges, "One range of it ({1} bytes) could not be read and was left out. Copies are in the folder quarantine of the store, except for segments that are missing.", "{0} ranges of it ({1} bytes) could not be read and was left out. Copies are in the folder quarantine of the store, except for segments that are missing.", count(counters.damaged_bytes_now)));
    }
  }

  function showWakeupLatency(histogram) {
    const total = histogramTotal(histogram);
    const few = total > 0 && total < LEAST_FOR_PERCENTILES;
    setText(part("wake-p99-label"), few ? t("slowest wake-up") : t("wake-up p99"));
    figure("wake-p99", few ? bucketText(singleValues(histogram).at(-1), micros) : estimate(percentile(histogram, 0.99), micros));
  }

  function tick(view) {
    const { state } = view;
    showLive({ ...view, first: state.seq === null, knownAt: view.status === "past" ? null : state.receivedAt }, broker.about);
    const up = broker.startedAtMs === null || view.now === null || state.epoch !== broker.epoch ? null : view.now - broker.startedAtMs;
    figure("uptime", span(up));
  }

  return {
    tick,
    render(view) {
      const { state } = view;
      latest = state;
      setText(part("broker"), state.broker ?? t("unknown broker"));
      if (view.status !== "past" && state.epoch !== null && state.epoch !== broker.epoch) readBroker(state.epoch);
      showWakeupLatency(state.wakeupUs);
      figure("holds", shortCount(state.holdsTotal));
      figure("stored", rate(counterRate(state.history, ["messages_stored"])));
      figure("delivered", rate(counterRate(state.history, ["messages_delivered"])));
      figure("woken", rate(counterRate(state.history, WAKE_COUNTERS)));
      banner.hidden = !state.problem;
      setText(problem, state.problem);
      showDamage(state.counters);
      showLongPolling(view);
      tick(view);
    },
  };
}
