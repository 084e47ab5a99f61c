/** Verdicts in another language, over evidence that the server's tests produced: node --test tests/dashboard/ */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

process.env.TZ = "UTC";
globalThis.django = catalogOf("../../dashboard/locale/zh_Hans/LC_MESSAGES/djangojs.po");
globalThis.document = { documentElement: { lang: "zh-hans", hasAttribute: () => false } };
const { ADVICE } = await import("../../static/js/text/verdict_advice.js");
const { VERDICTS, verdictAdvice, verdictSentence } = await import("../../static/js/text/verdict_texts.js");
const NOW_MS = 1_763_917_450_000; // as in tests/fakes/facts.py
const SAMPLES = JSON.parse(readFileSync(new URL("verdict_samples.json", import.meta.url)));

test("every verdict has a sentence from its evidence", () => {
  assert.deepEqual(new Set(SAMPLES.map(({ id }) => id)), new Set(Object.keys(VERDICTS)));
  for (const { id, evidence } of SAMPLES) {
    const text = verdictSentence({ id, evidence, sentence: "the server's" }, "g", NOW_MS);
    assert.doesNotMatch(text, /undefined|NaN|null|\{\d\}|\[object|the server's/, `${id}: ${text}`);
  }
});

/** Django's catalog for scripts, from its source. */
function catalogOf(path) {
  const source = readFileSync(new URL(path, import.meta.url), "utf8");
  const texts = new Map();
  for (const entry of source.split("\n\n")) {
    const [, id] = /^msgid (".*")$/m.exec(entry) ?? [];
    const [, translation] = /^msgstr(?:\[0\])? (".*")$/m.exec(entry) ?? [];
    if (id && translation) texts.set(JSON.parse(id), JSON.parse(translation));
  }
  return { gettext: (text) => texts.get(text) ?? text, ngettext: (one, many) => texts.get(one) ?? many };
}

/** The numbers in a sentence, sorted; those of "10 min 0 s" are 10, and those of a time of day are one. */
function numbersIn(sentence) {
  const text = sentence.replace(/\d{4}-\d\d-\d\d[T ](\d\d:\d\d:\d\d)Z?/g, "$1").replace(/(\d+ (?:min|h|d)) 0 (?:s|min|h)\b/g, "$1");
  return text.match(/\d\d:\d\d:\d\d|\d[\d,]*(?<!,)/g) ?? [];
}

test("each number of the server's sentence is in the other language's", () => {
  for (const { id, sentence, evidence } of SAMPLES) {
    const text = verdictSentence({ id, evidence, sentence }, "g", NOW_MS);
    const shown = numbersIn(text);
    for (const number of numbersIn(sentence)) {
      const place = shown.indexOf(number);
      assert.notEqual(place, -1, `${id}: ${number} of “${sentence}” is not in “${text}”`);
      shown.splice(place, 1);
    }
  }
});

test("words that make the difference are there", () => {
  const texts = (id) => SAMPLES.filter((sample) => sample.id === id).map((sample) => verdictSentence(sample, "g", NOW_MS));
  assert.ok(texts("listener_blocked").some((text) => /顺序消费.*orders@0.*挂起/.test(text)));
  assert.ok(texts("not_acknowledged").some((text) => /租约到期/.test(text)));
  assert.ok(texts("every_message_fails").some((text) => /第 6 次/.test(text)));
  assert.ok(texts("not_pulling").some((text) => /已暂停/.test(text)));
});

test("refused pulls have the times of the first and of the last one", () => {
  const { evidence } = SAMPLES.find(({ id }) => id === "pulls_refused");
  const times = verdictSentence({ id: "pulls_refused", evidence }, "billing", null).match(/\d\d:\d\d:\d\d/g);
  assert.deepEqual(times.map((time) => time.slice(3)), ["54:10", "04:09"]);
});

test("a verdict that is not known here keeps the server's words", () => {
  const verdict = { id: "new_one", sentence: "Something new.", advice: "Look.", evidence: {} };
  assert.equal(verdictSentence(verdict, "billing", null), "Something new.");
  assert.equal(verdictAdvice(verdict), "Look.");
});

test("advice that names the group and the client", () => {
  const advice = "Look at the client's threads: mqadmin consumerStatus -g billing -i 'a; b' -s prints their stacks (request 307).";
  assert.match(verdictAdvice({ advice }), /-g billing -i 'a; b' -s /, "quoted for a shell, as the server wrote it");
  assert.equal(new Set(ADVICE).size, ADVICE.length);
});
