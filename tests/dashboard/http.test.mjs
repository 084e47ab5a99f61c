import assert from "node:assert/strict";
import { test } from "node:test";

import { noteDate, serverNow } from "../../static/js/clock.js";
import { askServerTime, requestPages } from "../../static/js/http.js";

test("a list is followed to its end, or to the most entries that a page takes", async () => {
  const asked = [];
  const pages = { "": [["a", "b"], "b"], b: [["c"], "c&d"], "c&d": [["e"], undefined] };
  globalThis.fetch = async (address) => {
    const after = new URL(address, "http://x").searchParams.get("after") ?? "";
    asked.push(after);
    const [groups, next] = pages[after];
    return new Response(JSON.stringify({ groups, next, ...(after === "b" ? { unavailable: ["b2"] } : {}) }));
  };
  const whole = await requestPages("/groups", "groups", 20);
  assert.deepEqual([whole.groups, whole.hasMore, whole.unavailable], [["a", "b", "c", "e"], false, ["b2"]]);
  assert.deepEqual(asked, ["", "b", "c&d"]);
  const first = await requestPages("/groups", "groups", 3);
  assert.deepEqual([first.groups, first.hasMore], [["a", "b", "c"], true]);
});

test("a list of the chosen broker is followed with the query that it began with", async () => {
  const asked = [];
  const ask = async (method, path) => {
    asked.push(`${method} ${path}`);
    return asked.length === 1 ? { clients: [1], next: "7" } : { clients: [2] };
  };
  assert.deepEqual((await requestPages("/clients?group=g", "clients", Infinity, ask)).clients, [1, 2]);
  assert.deepEqual(asked, ["GET /clients?group=g", "GET /clients?group=g&after=7"]);
});

test("the server's time is known although the browser's clock is wrong by an hour", async () => {
  const hour = 3_600_000;
  const nearly = (time, wanted) => assert.ok(Math.abs(time - wanted) < 60_000, `${time} is not about ${wanted}`);
  globalThis.fetch = async () => new Response("{}", { headers: { Date: new Date(Date.now() - hour).toUTCString() } });
  noteDate("no date");
  nearly(await askServerTime(), Date.now() - hour);
  noteDate(new Date(Date.now() + hour).toUTCString());
  nearly(serverNow(), Date.now() + hour);
  noteDate(new Date(Date.now() - 1000).toUTCString());
  nearly(serverNow(), Date.now());
  globalThis.fetch = async () => assert.fail("the time is known");
  nearly(await askServerTime(), Date.now());
});
