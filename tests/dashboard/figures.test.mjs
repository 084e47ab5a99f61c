import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { explainEnd, explainHold, explainPull, explainUnbegun } from "../../static/js/text/explain.js";
import { ago, axisLabels, bucketText, cause, clockTime, count, estimate, isSystemTopic, micros, millis, rate, shortCount, plural, span, withLocalTimes } from "../../static/js/text/format.js";
import { backoff } from "../../static/js/socket.js";
import { counterRate, firstOf, percentile, queueRate, rateSeries, singleValues, visibleBuckets } from "../../static/js/stats.js";

const HOLD = { id: 4, topic: "debian-packages", queue_id: 0, group: "mirror", client_id: "c", protocol: "http",
  pull_from_offset: 42, queue_max_offset: 42, suspended_at_ms: 1_000, deadline_ms: 16_000, filter: "*" };

describe("the reason of a hold", () => {
  const at = (maxOffset, filter = "*") => explainHold({ ...HOLD, filter }, { max_offset: maxOffset }, 7_800);

  test("nothing new has arrived", () => {
    assert.equal(at(42), "Waits for offset 42 of debian-packages@0; the queue ends at 42, so no new message has arrived. "
      + "It will be answered in 8.2 s at the latest.");
  });
  test("the filter rejects what has arrived", () => {
    assert.match(at(45, "TagA"), /3 messages have arrived since \(the queue ends at 45\), but its filter TagA rejects them/);
    assert.match(at(43, "TagA"), /1 message has arrived since .* rejects it\./);
  });
  test("the filter is named while nothing has arrived", () => assert.match(at(42, "TagA"), /Only a message that its filter TagA accepts wakes it/));
  test("a matching message wakes it", () => assert.match(at(43), /so it is being woken now/));
  test("its deadline has passed", () => {
    assert.match(explainHold(HOLD, undefined, 16_300), /deadline passed 0\.3 s ago, so its answer is due/);
  });
  test("an unknown clock makes the deadline unknown", () => assert.match(explainHold(HOLD, undefined, null), /unknown/));
  test("a pop waits for a message of any queue, or of one", () => {
    const pop = { ...HOLD, queue_id: -1, pull_from_offset: -1, queue_max_offset: -1 };
    assert.equal(explainHold(pop, undefined, 7_800), "Waits to pop a message from any queue of debian-packages; the broker gives "
      + "each message to one member of the group. It will be answered in 8.2 s at the latest.");
    assert.match(explainHold({ ...pop, queue_id: 3, filter: "TagA" }, { max_offset: 9 }, 7_800), /^Waits to pop a message that its filter TagA accepts from debian-packages@3;/);
  });
  test("a pop in order waits for the acknowledgements of another client", () => {
    const pop = { ...HOLD, queue_id: -1, pull_from_offset: -1, queue_max_offset: -1 };
    const waits = (more) => explainHold({ ...pop, waits_for: { queue_id: 2, messages: 3, client_id: "c1", until_ms: 9_000, ...more } }, undefined, 7_800);
    assert.match(waits({}), /^Waits to pop in order: when its hold began, debian-packages@2 was handed out to c1, with 3 acknowledgements missing\. The queue is free when they come, at 1970-01-01 \d\d:\d\d:\d\d\S* [^ ]+ at the latest\./);
    assert.match(waits({ messages: 1, client_id: "" }), /handed out to an unknown client, with 1 acknowledgement missing\. The queue is free when it comes/);
  });
  test("short polling is named", () => {
    assert.match(explainHold(HOLD, undefined, 1_000, { longPollingEnable: false }), /longPollingEnable is off/);
  });
});

describe("the end of a hold", () => {
  const end = (fields) => explainEnd(HOLD, { cause: "arrival", held_us: 4_200_000, wake_us: 143, messages: 1, ...fields });
  test("by a message", () => {
    assert.match(end({}), /^Woken after 4\.2 s by arrival: .*answered with 1 message, 143 µs after the message arrived\.$/);
  });
  test("by its client", () => assert.match(end({ cause: "channel_gone", wake_us: 0 }), /^Released after 4\.2 s: its client disconnected/));
  test("unknown to the page", () => assert.match(explainEnd(HOLD, null), /no longer has its wake-up/));
  test("that had not begun on a board of the past", () => {
    assert.match(explainUnbegun(HOLD), /^Not held yet at this moment: its hold began at 1970-01-01 \d\d:\d\d:\d\d\.\d{3} /);
  });
  test("in one line for the in-page consumer", () => {
    assert.equal(explainPull(null, null, null), "answered at once, not held");
    assert.equal(explainPull({ held_ms: "2041", wake_cause: "arrival" }, 150, 12.3),
      "held 2.0 s, woken by arrival, 150 µs after the arrival, 12 ms from Publish to this page");
  });
});

describe("figures", () => {
  test("of an axis are not repeated", () => {
    assert.deepEqual(axisLabels([0, 0.5, 1], shortCount), ["0", "", "1"]);
    assert.deepEqual(axisLabels([0, 0.5, 1], rate), ["0", "0.5", "1.0"]);
  });
  test("are unknown, not 0, when they are not known", () => {
    for (const write of [count, shortCount, rate, micros, millis, span, ago, clockTime]) {
      assert.equal(write(null), "unknown");
      assert.equal(write(undefined), "unknown");
    }
    assert.equal(estimate(null, micros), "unknown");
  });
  test("keep every digit of 64-bit numbers that come as text", () => assert.equal(count("9223372036854775807"), "9,223,372,036,854,775,807"));
  test("have readable units", () => {
    assert.equal(micros(143), "143 µs");
    assert.equal(micros(1_430), "1.43 ms");
    assert.equal(micros(15_000_000), "15.0 s");
    assert.equal(millis(10), "10 ms");
    assert.equal(millis(61_000), "1 min 1 s");
    assert.equal(span(93_784_000), "1 d 2 h");
    assert.equal(shortCount(12_345), "12.3k");
    assert.equal(rate(0.25), "0.3");
    assert.equal(ago(300), "now");
  });
  test("are marked as estimates of their bucket", () => {
    assert.equal(estimate({ value: 150, open: false }, micros), "≈ 150 µs");
    assert.equal(estimate({ value: 100_000, open: true }, micros), "> 100 ms");
  });
  test("tell system topics from others", () => {
    assert.ok(isSystemTopic("RMQ_SYS_TRACE_TOPIC"));
    assert.ok(isSystemTopic("broker-a", "broker-a"));
    assert.ok(!isSystemTopic("orders", "broker-a"));
    assert.ok(!isSystemTopic("%RETRY%billing"), "a retry topic is not hidden");
  });
  test("name an unknown cause", () => assert.equal(cause("brand_new").word, "brand new"));
});

describe("single values", () => {
  test("are the buckets that have values", () => {
    const buckets = singleValues({ bounds: [100, 200, 500], counts: [0, 3, 0, 1] });
    assert.deepEqual(buckets, [{ value: 200, open: false, count: 3 }, { value: 500, open: true, count: 1 }]);
    assert.deepEqual(buckets.map((bucket) => bucketText(bucket, micros)), ["≤ 200 µs", "> 500 µs"]);
  });
});

describe("percentiles", () => {
  const histogram = { bounds: [100, 200, 500], counts: [0, 80, 20, 0] };
  test("are interpolated inside their bucket", () => {
    assert.deepEqual(percentile(histogram, 0.5), { value: 162.5, open: false });
    assert.equal(percentile(histogram, 0.99).value, 485);
  });
  test("of nothing are unknown", () => {
    assert.equal(percentile({ bounds: [1], counts: [0, 0] }, 0.5), null);
    assert.equal(percentile(null, 0.5), null);
  });
  test("in the last bucket are only known from below", () => {
    assert.deepEqual(percentile({ bounds: [100], counts: [0, 5] }, 0.5), { value: 100, open: true });
  });
  test("are drawn over the buckets with values", () => {
    const wide = { bounds: Array.from({ length: 30 }, (_, i) => i), counts: Array.from({ length: 31 }, (_, i) => (i === 15 ? 3 : 0)) };
    const { from, to } = visibleBuckets(wide);
    assert.ok(from <= 14 && to >= 17 && to - from === 8);
  });
});

describe("rates", () => {
  test("of a queue are unknown at first", () => {
    const queue = { max_offset: 100, samples: [[10_000, 100]] };
    assert.equal(queueRate(queue, 10_500, 10_000), null);
    assert.equal(queueRate(queue, 14_000, 10_000), 0);
  });
  test("of a queue cover the last ten seconds only", () => {
    const queue = { max_offset: 160, samples: [[10_000, 100], [20_000, 110], [29_000, 160]] };
    assert.equal(queueRate(queue, 30_000, 10_000), 5);
  });
  test("of counters add them up", () => {
    const history = [{ wallMs: 0, counters: { a: 0, b: 0 } }, { wallMs: 10_000, counters: { a: 20, b: 10 } }];
    assert.equal(counterRate(history, ["a", "b"]), 3);
    assert.equal(counterRate(history.slice(1), ["a"]), null);
    assert.deepEqual(rateSeries(history, ["a"]), [[10], [2]]);
  });
});

test("singular and plural", () => {
  assert.deepEqual([0, 1, 2000].map((number) => plural(number, "{0} queue", "{0} queues")), ["0 queues", "1 queue", "2,000 queues"]);
  assert.equal(plural("1", "{0} is", "{0} are"), "1 is");
});

test("reconnects wait longer each time, with jitter, up to a maximum", () => {
  assert.equal(backoff(0, () => 0), 250);
  assert.equal(backoff(0, () => 1), 500);
  assert.equal(backoff(3, () => 1), 4_000);
  assert.equal(backoff(1_000, () => 1), 15_000);
});

describe("times of the server", () => {
  const timeZone = process.env.TZ;
  const at = (zone, write) => {
    process.env.TZ = zone;
    try { return write(); } finally { if (timeZone === undefined) delete process.env.TZ; else process.env.TZ = timeZone; }
  };
  const NOON = Date.parse("2026-11-23T17:30:00Z");
  const sentence = "Refused since 2026-11-23T17:04:10Z, 353 times; next 2026-11-24T00:00:00Z.";
  test("are shown in the reader's time zone, with the date if it is not today's", () => {
    assert.equal(at("UTC", () => withLocalTimes(sentence, NOON)), "Refused since 17:04:10, 353 times; next 2026-11-24 00:00:00 UTC.");
    assert.equal(at("Asia/Shanghai", () => withLocalTimes("2026-11-21T17:04:10Z", NOON)), "2026-11-22 01:04:10 GMT+8");
    assert.equal(at("America/St_Johns", () => withLocalTimes("2026-11-21T17:04:10Z", NOON)), "2026-11-21 13:34:10 GMT-3:30");
    assert.equal(at("Asia/Shanghai", () => withLocalTimes(sentence, NOON)), "Refused since 01:04:10, 353 times; next 08:00:00.");
  });
  test("are left alone where they are a part of a word", () => {
    assert.equal(withLocalTimes("of x2026-11-23T17:04:10Z"), "of x2026-11-23T17:04:10Z");
  });
});

describe("the first of many rows", () => {
  const byAge = (a, b) => a.age - b.age || a.id - b.id;
  const rows = (count) => Array.from({ length: count }, (_, id) => ({ id, age: (id * 7919) % 101 }));

  for (const [count, limit] of [[0, 5], [5, 5], [9, 5], [1_000, 10], [1_000, 1]]) {
    test(`${limit} of ${count} are those of a whole sort`, () => {
      assert.deepEqual(firstOf(rows(count), limit, byAge), rows(count).sort(byAge).slice(0, limit));
    });
  }
  test("ten thousand rows are hardly more than one comparison each, and stay as they are", () => {
    let compared = 0;
    const all = rows(10_000);
    firstOf(all, 100, (a, b) => {
      compared += 1;
      return byAge(a, b);
    });
    assert.ok(compared < 20_000, `${compared} comparisons`);
    assert.deepEqual(all, rows(10_000));
  });
});
