import assert from "node:assert/strict";
import { test } from "node:test";

import { countText } from "../../static/js/text/waiting_text.js";

test("the number of waiting messages says what is shown and whether all are counted", () => {
  const retries = [{}, {}];
  assert.equal(countText({ waiting: "2", counted: true, retries }), "2");
  assert.equal(countText({ waiting: "812", counted: true, retries }), "the first 2 of 812");
  assert.equal(countText({ waiting: "812", counted: false, retries }), "the first 2 of at least 812");
  assert.equal(countText({ waiting: "0", counted: false, retries: [] }), "at least 0");
});
