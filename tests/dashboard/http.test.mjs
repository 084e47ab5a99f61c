import assert from "node:assert/strict";
import { test } from "node:test";

import { requestPages } from "../../static/js/http.js";

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
