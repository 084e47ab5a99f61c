/** Verdicts in another language, over evidence that the server's tests produced: node --test tests/dashboard/ */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

globalThis.document = { documentElement: { lang: "zh-hans", hasAttribute: () => false } };
const { ADVICE } = await import("../../static/js/text/verdict_advice.js");
const { VERDICTS, verdictAdvice, verdictSentence } = await import("../../static/js/text/verdict_texts.js");
const SAMPLES = JSON.parse(readFileSync(new URL("verdict_samples.json", import.meta.url)));

test("every verdict has a sentence from its evidence", () => {
  assert.deepEqual(new Set(SAMPLES.map(({ id }) => id)), new Set(Object.keys(VERDICTS)));
  for (const { id, evidence } of SAMPLES) {
    const text = verdictSentence({ id, evidence, sentence: "the server's" }, "billing", 1_764_000_000_000);
    assert.doesNotMatch(text, /undefined|NaN|null|\{\d\}|\[object|the server's/, `${id}: ${text}`);
  }
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
