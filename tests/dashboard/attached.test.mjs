/** What pages say about attached brokers. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { copyText, isAttached, knownCharts } from "../../static/js/pages/attached.js";

const copy = (fields = {}) => ({ broker: "broker-a", state: "following", min_ms: "1700000000000", lag_bytes: "0", lag_ms: "0", problem: "", ...fields });

test("without a page that says so, brokers are our own", () => {
  assert.equal(isAttached, false);
});

test("a copy is described by its beginning, its state and its lag", () => {
  assert.match(copyText(copy()), /^broker-a: messages since .*, following, 0 B behind$/);
  assert.match(copyText(copy({ lag_bytes: "2048", lag_ms: "1500" })), /, 2,048 B behind \(1 s\)$/);
});

test("what is unknown about a copy is not 0", () => {
  const text = copyText(copy({ state: "waiting", min_ms: null, lag_bytes: null, lag_ms: null, problem: "the broker is away" }));
  assert.equal(text, "broker-a: no messages yet, not connected, how far behind is unknown (the broker is away)");
});

test("charts leave out what RocketMQ does not report", () => {
  const line = (metric, name = "") => ({ metric, name });
  const charts = [{ title: "rate", lines: [line("stored_tps", "stored"), line("delivered_tps", "delivered"), line("woken_tps", "wake-ups")] },
    { title: "lag", lines: [line("lag")] }, { title: "pulls", lines: [line("holds")] }, { title: "p99", lines: [line("wake_p99_us")] }];
  const names = (ofBroker) => knownCharts(charts, ofBroker).map(({ lines }) => lines.map(({ name }) => name));
  assert.deepEqual(names(true), [["stored"], [""]]);
  assert.deepEqual(names(false), [["stored", "committed"], [""]]);
});
