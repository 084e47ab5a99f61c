import assert from "node:assert/strict";
import { test } from "node:test";

import { badge, channelText, conditionText, evaluationText, figureChoices, firingText, nothingText, sentText, shownThreshold, storedThreshold, targetText } from "../../static/js/text/alerts_text.js";

const rule = { what: "lag", threshold: 1000, states: [], group: "*", topic: "*", for_s: 0, channels: [] };

test("a rule in words", () => {
  const words = (changes) => conditionText({ ...rule, ...changes });
  assert.equal(words({}), "more than 1,000 messages wait");
  assert.equal(words({ group: "billing*", topic: "orders", for_s: 90 }), "more than 1,000 messages wait for 1 min 30 s · group billing*, topic orders");
  assert.equal(words({ what: "group_state", states: ["stalled", "stopped"], for_s: 120 }), "a group is stalled or stopped for 2 min");
  assert.equal(words({ what: "oldest", threshold: 600_000 }), "a message waits longer than 10 min");
  assert.equal(words({ what: "dead_letters", threshold: 0 }), "a new dead letter");
  assert.equal(words({ what: "missed_arrivals", threshold: 1 }), "more than 1 missed arrival");
  assert.equal(words({ what: "disk_used", threshold: 75 }), "the disk is more than 75 % full");
  assert.equal(words({ what: "engine_down", threshold: 0 }), "the engine does not answer");
  const verdicts = { what: "group_verdict", verdicts: ["no_member", "heartbeat_late"], verdict_severities: [] };
  assert.equal(words(verdicts), "a group has the verdict: no member or heartbeat late");
  assert.equal(words({ ...verdicts, verdict_severities: ["error"] }), "a group has the verdict: no member or heartbeat late (error)");
  assert.equal(words({ ...verdicts, verdicts: [], verdict_severities: ["error"] }), "a group has a verdict of severity error");
  assert.equal(words({ ...verdicts, verdicts: [], verdict_severities: ["error", "warning"] }), "a group has a verdict of severity error or warning");
  const report = { what: "report", report: "throughput", figure: "messages", threshold: 5000 };
  assert.equal(words(report), "messages of the report throughput is above 5,000");
  assert.equal(words({ ...report, below: true }), "messages of the report throughput is below 5,000");
  assert.equal(words({ ...report, figure_kind: "ms" }), "messages of the report throughput is above 5,000 ms");
  assert.equal(words({ ...report, threshold: 5, figure_kind: "share" }), "messages of the report throughput is above 5 %");
  assert.equal(words({ ...report, figure_kind: "number" }), "messages of the report throughput is above 5,000");
});

test("an age is entered in seconds and stored in milliseconds", () => {
  assert.equal(storedThreshold("oldest", 600), 600_000);
  assert.equal(shownThreshold({ what: "oldest", threshold: 600_000 }), 600);
  assert.equal(storedThreshold("lag", 5), 5);
});

test("what became of a message", () => {
  const alert = { silenced: false, notified_ms: null };
  assert.equal(sentText({ ...alert, silenced: true }, rule), "silenced");
  assert.match(sentText({ ...alert, notified_ms: Date.now() }, rule), /^sent \d\d:\d\d:\d\d$/);
  assert.equal(sentText(alert, rule), "no channel");
  assert.equal(sentText(alert, { ...rule, channels: [1] }), "not sent yet");
  assert.equal(sentText(alert, undefined), "not sent");
  const channel = { enabled: true, error: "", sent_ms: null, failed_ms: null, kind: "webhook", host: "https://x.example", recipients: [] };
  assert.equal(channelText(channel), "no alert sent yet");
  assert.equal(channelText({ ...channel, enabled: false }), "off");
  assert.match(channelText({ ...channel, error: "it answered 503", failed_ms: Date.now() }), /^failed \S+: it answered 503$/);
  assert.equal(targetText(channel), "https://x.example");
  assert.equal(targetText({ ...channel, kind: "email", recipients: ["a@b.example", "c@d.example"] }), "a@b.example, c@d.example");
});

test("the badge counts what fires, and is red when something is critical", () => {
  assert.equal(badge({ critical: 0, warning: 0, info: 0 }), null);
  assert.deepEqual(badge({ critical: 0, warning: 1, info: 0 }), { text: "1 alert firing", severity: "warning" });
  assert.deepEqual(badge({ critical: 1, warning: 1, info: 0 }), { text: "2 alerts firing", severity: "critical" });
  assert.equal(firingText({ critical: 2, warning: 0, info: 1 }, 0), "2 critical · 1 info");
  assert.match(firingText({ critical: 0, warning: 0, info: 0 }, Date.now()), /^evaluated \d\d:\d\d:\d\d$/);
  assert.equal(firingText({ critical: 0, warning: 0, info: 0 }, null), "");
});

test("rules that nobody evaluates are pointed out", () => {
  assert.equal(evaluationText(1_000_000, 1_100_000), "");
  assert.match(evaluationText(1_000_000, 1_600_000), /last evaluated 10 min ago/);
  assert.match(evaluationText(null, 1), /not been evaluated yet/);
});

test("nothing fires only where all was looked at a short time ago", () => {
  assert.equal(nothingText({ evaluated_ms: 1_000_000, now_ms: 1_010_000, problems: [] }), "Nothing fires.");
  assert.equal(nothingText({ evaluated_ms: 1_000_000, now_ms: 1_010_000, problems: ["broker-a does not answer."] }), "Nothing fires, as far as is known.");
  for (const evaluated of [null, 1_000]) {
    assert.equal(nothingText({ evaluated_ms: evaluated, now_ms: 1_010_000, problems: [] }), "It is not known whether anything fires.");
  }
});

test("the figures of a report are those of its newest run that is about everything", () => {
  const run = (status, parameters, ...names) => ({ status, parameters, headlines: names.map((name) => ({ name, label: name.toUpperCase(), kind: "ms" })) });
  const runs = [run("running", {}), run("done", { topic: "orders" }, "x"), run("done", { topic: null }, "lag_ms"), run("done", {}, "old")];
  assert.deepEqual(figureChoices({ runs }, ""), [["lag_ms", "LAG_MS (ms)"]]);
  assert.deepEqual(figureChoices({ runs }, "gone"), [["gone", "gone"], ["lag_ms", "LAG_MS (ms)"]]);
  assert.deepEqual(figureChoices(undefined, ""), []);
});
