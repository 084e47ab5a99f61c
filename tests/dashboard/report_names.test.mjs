/** The note on names that no broker knows: node --test tests/dashboard/ */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { unknownNote } from "../../static/js/pages/report_names.js";

const TOPIC = "No topic of this name is known now. A deleted topic may still be in the log.";
const GROUP = "No group of this name is known now. A deleted group may still be in the log.";
let asked;
let statuses;

beforeEach(() => {
  [asked, statuses] = [[], {}];
  globalThis.fetch = async (url) => {
    const { pathname, searchParams } = new URL(url, "http://here");
    asked.push([pathname, searchParams.get("broker")]);
    const status = await (statuses[pathname] ?? 200);
    return { ok: status === 200, status, headers: new Map(), text: async () => status === 200 ? "{}" : '{"detail": "no"}' };
  };
});

const noted = (topic, group, broker = "") => unknownNote({ topic: { value: topic }, group: { value: group }, broker: { value: broker } });

test("known names, and empty fields, have no note", async () => {
  assert.equal(await noted("", " "), "");
  assert.deepEqual(asked, []);
  assert.equal(await noted(" orders ", "a", "b-1"), "");
  assert.deepEqual(asked, [["/api/v1/topics/orders/groups", "b-1"], ["/api/v1/groups/a", "b-1"]]);
});

test("names that no broker has are noted, each with its sentence", async () => {
  statuses = { "/api/v1/topics/x/groups": 404, "/api/v1/groups/y": 404 };
  assert.equal(await noted("x", "a"), TOPIC);
  assert.equal(await noted("orders", "y"), GROUP);
  assert.equal(await noted("x", "y"), `${TOPIC} ${GROUP}`);
});

test("without an answer nothing is said to be unknown", async () => {
  statuses = { "/api/v1/topics/x/groups": 504, "/api/v1/groups/y": 400 };
  assert.equal(await noted("x", "y"), "");
});

test("an answer that comes after the next question is not shown", async () => {
  let answer;
  statuses = { "/api/v1/topics/x/groups": new Promise((resolve) => { answer = resolve; }) };
  const first = noted("x", "");
  assert.equal(await noted("orders", ""), "");
  answer(404);
  assert.equal(await first, null);
});
