import assert from "node:assert/strict";
import { test } from "node:test";

import { outageText } from "../../static/js/text/outage_text.js";

test("the banner says who does not answer, and since when", () => {
  assert.equal(outageText(200, null, "17:17:20", false), "");
  assert.equal(outageText(404, null, null, false), "");
  assert.equal(outageText(503, { code: "SYSTEM_BUSY" }, "17:17:20", true), "The engine has not answered since 17:17:20; publishing is refused.");
  assert.equal(outageText(504, null, null, false), "The engine does not answer; publishing is refused.");
  assert.equal(outageText(0, null, "17:17:20", false), "The web server has not answered since 17:17:20.");
});

test("a problem of the broker is shown once", () => {
  const problem = { code: "SERVICE_NOT_AVAILABLE", detail: "the disk is full" };
  assert.equal(outageText(503, problem, null, false), "Publishing is refused: the disk is full");
  assert.equal(outageText(503, problem, null, true), "");
});
