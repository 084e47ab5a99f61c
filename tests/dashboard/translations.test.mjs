/** Texts in another language: node --test tests/dashboard/ */

import assert from "node:assert/strict";
import { test } from "node:test";

const CATALOG = { "{0} of {1} match": "{1} 个中有 {0} 个符合", unknown: "未知", bitmap: "位图", ", ": "，", "{0}: {1}": "{0}：{1}" };
globalThis.document = { documentElement: { lang: "zh-hans", hasAttribute: () => false } };
globalThis.django = {
  gettext: (text) => CATALOG[text] ?? text,
  ngettext: (one, many, number) => (one === "{0} queue" ? "{0} 个队列" : number === 1 ? one : many),
};
const { choose, t } = await import("../../static/js/text/translate.js");
const { stepsOfHold } = await import("../../static/js/text/hold_time_line.js");
const { copyText } = await import("../../static/js/pages/attached.js");
const { UNKNOWN, plural, shortCount } = await import("../../static/js/text/format.js");

test("values stand where the translation wants them", () => {
  assert.equal(t("{0} of {1} match", 3, 10), "10 个中有 3 个符合");
  assert.equal(t("not in the catalog: {0}", "x"), "not in the catalog: x");
  assert.equal(t("{0}", "{1}"), "{1}", "a value is not searched for places");
});

test("a language without plurals", () => {
  assert.deepEqual([1, 2].map((number) => plural(number, "{0} queue", "{0} queues")), ["1 个队列", "2 个队列"]);
  assert.equal(choose(1, "one", "many"), "one");
});

test("numbers and words in Chinese", () => {
  assert.equal(shortCount(123_456), "12.3万");
  assert.equal(UNKNOWN, "未知");
});

test("the marks between the words of a sentence are those of the language", () => {
  const view = { broker: "broker-a", min_ms: null, lag_bytes: null, lag_ms: null, state: "following", problem: "" };
  assert.match(copyText(view), /^broker-a：[^:,]*，[^:,]*，[^:,]*$/);
});

test("what rejected the messages of a hold", () => {
  const passed = { type: "pull_passed_over", wall_ms: 1, from_offset: 1, to_offset: 2, by: "bitmap" };
  assert.match(stepsOfHold({ events: [passed] })[0].text, /by 位图$/);
});
