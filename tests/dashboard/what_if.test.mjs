import assert from "node:assert/strict";
import { test } from "node:test";
import { dateTime } from "../../static/js/text/format.js";
import { methodRow, sampleNote, summaryText } from "../../static/js/text/what_if_text.js";

const totals = (method, requests, delay) => ({ method, requests, empty: requests - 4, samples: 3, p50_us: delay, p99_us: delay, max_us: delay, delays_us: [] });
const ANSWER = { pulls: 6, empty: 2, waits: 4, complete: true, from_ms: 0, to_ms: 300_000, interval_ms: 1000,
  methods: [totals("long_polling", 6, 180), totals("short_polling", 40, 512_000), totals("stock_rocketmq", 5, 600)] };

test("the summary says what short polling would have cost", () => {
  const [savings, end] = summaryText(ANSWER).split(" Pulls that ended by ");
  assert.equal(savings, "6 pulls ended, 2 without messages: 4 waits. Short polling every 1 s would have sent 34 requests more. "
    + "Messages would have been given 512 ms after they came (p50), instead of 180 µs.");
  assert.equal(end, `${dateTime(ANSWER.to_ms)} are included.`);
  assert.equal(sampleNote(ANSWER), "delays of 3 waits whose arrival is known");
});

test("nothing and a part are said", () => {
  assert.match(summaryText({ ...ANSWER, pulls: 0 }), /^No pull of this topic ended/);
  assert.match(summaryText({ ...ANSWER, complete: false }), /Only those from .* to .* were looked at/);
  const same = [ANSWER.methods[0], { ...ANSWER.methods[1], requests: 6, p50_us: null }];
  assert.match(summaryText({ ...ANSWER, methods: same }), /Short polling every 1 s would have sent as many requests\. Pulls/);
  const busy = [ANSWER.methods[0], { ...ANSWER.methods[1], requests: 5 }];
  assert.match(summaryText({ ...ANSWER, methods: busy }), /would have sent 1 request fewer\. Messages/);
});

test("a row has texts, and an unknown delay is no number", () => {
  assert.deepEqual(methodRow(totals("stock_rocketmq", 5, null), 1000), { method: "stock RocketMQ", requests: "5", empty: "1", p50: "unknown", p99: "unknown", max: "unknown" });
});

test("few delays are shown one by one, and no percentile of them", () => {
  const few = { ...totals("long_polling", 6, 180), delays_us: [120, 150, 180] };
  assert.deepEqual(methodRow(few, 1000), { method: "long polling (GlassMQ)", requests: "6", empty: "2", delays: "120 µs, 150 µs, 180 µs" });
  const short = { ...ANSWER.methods[1], delays_us: [100, 200, 512_000] };
  assert.match(summaryText({ ...ANSWER, methods: [few, short] }), / Messages would have been given 512 ms after they came at most, instead of 180 µs\./);
});
