/** The server's sentences in another language: node --test tests/dashboard/ */

import assert from "node:assert/strict";
import { test } from "node:test";

const CATALOG = {
  "{0} messages": "{0} 条消息", "{0} on {1} is {2}, {3} behind": "{0}/{1} {2} {3}", "; ": "；", "{0} and {1} more": "{0}，另 {1} 个",
  "{0}.": "{0}。", "{0}: {1}": "{0}：{1}", stalled: "停滞",
  "a client": "某客户端", "{0} has not pulled from it yet": "{0} 还没有拉取过", "{0} s": "{0} 秒", "{0} min": "{0} 分",
  "{0} has it locked; {1} waits for the lock": "{1} 等待 {0} 的锁", "{0}; {1} popped messages are not acknowledged": "{0}；{1} 条未确认",
  "{0} waits to pop from any queue": "{0} 等待 pop", "{0} waits at offset {1}, the queue's end": "{0} 在 {1}",
  "{0} waits at offset {1}, the queue's end, for a message that {2} accepts": "{0} 在 {1} 等待 {2}",
  "{0} has sent no heartbeat for {1}: its process is frozen or its network is cut": "{0} 已有 {1} 没有心跳",
  "the broker's engine has not answered for {0} s": "引擎已有 {0} 秒没有应答",
  "{0}; the command may or may not have been executed": "{0}；命令可能已执行",
};
globalThis.document = { documentElement: { lang: "zh-hans", hasAttribute: () => false } };
globalThis.django = { gettext: (text) => CATALOG[text] ?? text, ngettext: (one) => one };
const { serverText } = await import("../../static/js/text/server/texts.js");
const { explainQueue } = await import("../../static/js/text/explain_group.js");

test("a sentence is that of its template, with its names as they are", () => {
  assert.equal(serverText("(app) 1.0$ has it locked; B {0} waits for the lock"), "B {0} 等待 (app) 1.0$ 的锁");
  assert.equal(serverText("A\n has not pulled from it yet"), "A\n 还没有拉取过");
});

test("what stands in a place is translated too", () => {
  assert.equal(serverText("a client waits to pop from any queue; 3 popped messages are not acknowledged"), "某客户端 等待 pop；3 条未确认");
  assert.equal(serverText("A has sent no heartbeat for 1 min 5 s: its process is frozen or its network is cut"), "A 已有 1 分 5 秒 没有心跳");
});

test("an engine that does not answer is said in the page's language", () => {
  assert.equal(serverText("the broker's engine has not answered for 75 s; the command may or may not have been executed"),
    "引擎已有 75 秒没有应答；命令可能已执行");
});

test("of two templates that fit, the more exact one counts", () => {
  assert.equal(serverText("A waits at offset 3, the queue's end, for a message that TagA accepts"), "A 在 3 等待 TagA");
});

test("other texts stay as they are, and a long one is not searched", () => {
  assert.equal(serverText("something new"), "something new");
  assert.equal(serverText(""), "");
  const long = `${"x".repeat(3000)} has not pulled from it yet`;
  assert.equal(serverText(long), long);
});

test("amounts, lists, and names before a sentence", () => {
  assert.equal(serverText("12 messages"), "12 条消息");
  assert.equal(serverText("no messages"), "no messages");
  assert.equal(serverText("a on b is stalled, 12 messages behind; c on d is stopped, 1 messages behind and 4 more."),
    "a/b 停滞 12 条消息；c/d stopped 1 条消息，另 4 个。");
  assert.equal(serverText("broker-a: a client"), "broker-a：某客户端");
});

test("the sentence of a group's queue", () => {
  const queue = { state: "not_polling", why: "A has not pulled from it yet", assigned_to: "A", offset: null, pull_offset: null };
  assert.match(explainQueue(queue, null), /^A 还没有拉取过/);
});
