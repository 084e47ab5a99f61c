import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf, addressOfFirst, keepBroker, withBroker } from "../../static/js/brokers.js";

const GROUPS = "http://h:8000/groups?broker=broker-b&state=stalled";

test("links of a page about one broker lead to pages about it", () => {
  assert.equal(keepBroker("/groups/g", GROUPS), "http://h:8000/groups/g?broker=broker-b");
  assert.equal(keepBroker("/messages/M?topic=T#x", GROUPS), "http://h:8000/messages/M?topic=T&broker=broker-b#x");
  assert.equal(keepBroker("/", GROUPS), "http://h:8000/?broker=broker-b");
});

test("a broker that somebody chose is that of the header's pages too", () => {
  const live = "http://h:8000/?broker=broker-b";
  assert.equal(keepBroker("/groups/g", live), "http://h:8000/groups/g?broker=broker-b");
  assert.equal(keepBroker("/topics", live), "http://h:8000/topics?broker=broker-b");
});

test("of the first broker, which nobody chose, are only the groups and messages that the page names", () => {
  const live = addressOfFirst("broker-a", "http://h:8000/");
  assert.equal(keepBroker("/groups/g", live), "http://h:8000/groups/g?broker=broker-a");
  assert.equal(keepBroker("/messages/M", live), "http://h:8000/messages/M?broker=broker-a");
  assert.equal(keepBroker("/topics", live), "/topics");
  assert.equal(addressOf("broker-a", live), "http://h:8000/?broker=broker-a", "now somebody chose it");
});

test("other links stay as they are", () => {
  for (const href of ["/groups/g/dead-letters?broker=broker-a", "/guide/alerts", "/alerts", "/reports", "/api/docs", "https://elsewhere.example/groups", "mailto:x@y.example"]) {
    assert.equal(keepBroker(href, GROUPS), href);
  }
  assert.equal(keepBroker("/groups", "http://h:8000/groups"), "/groups");
});

test("a request goes to one broker, named once", () => {
  assert.equal(withBroker("/topics/t", "b c"), "/topics/t?broker=b%20c");
  assert.equal(withBroker("/topics?after=x", "b"), "/topics?after=x&broker=b");
  assert.equal(withBroker("/topics/t?broker=a", "b"), "/topics/t?broker=a", "the server refuses a parameter that is given twice");
  assert.equal(withBroker("/topics/t", ""), "/topics/t");
});
