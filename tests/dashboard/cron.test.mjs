import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { choiceOf, cronOf } from "../../static/js/cron.js";

describe("the form for a cron expression", () => {
  for (const [cron, choice] of [
    ["30 2 * * *", { every: "day", time: "02:30" }],
    ["0 0 * * *", { every: "day", time: "00:00" }],
    ["15 * * * *", { every: "hour", minute: 15 }],
    ["*/5 8-17 * * mon-fri", { every: "cron", cron: "*/5 8-17 * * mon-fri" }],
    ["30 2 1 * *", { every: "cron", cron: "30 2 1 * *" }],
  ]) {
    test(`${cron} both ways`, () => {
      assert.deepEqual(choiceOf(cron), choice);
      assert.equal(cronOf(choice), cron);
    });
  }
  test("other expressions are kept as written", () => {
    assert.deepEqual(choiceOf("75 2 * * *"), { every: "cron", cron: "75 2 * * *" });
    assert.deepEqual(choiceOf("99 * * * *"), { every: "cron", cron: "99 * * * *" });
    assert.deepEqual(choiceOf(null), { every: "cron", cron: "" });
  });
});

describe("a form", () => {
  test("that is incomplete has no cron expression", () => {
    for (const choice of [{ every: "day", time: "" }, { every: "hour", minute: "" }, { every: "hour", minute: "60" },
      { every: "hour", minute: "-1" }, { every: "cron", cron: "  " }]) assert.equal(cronOf(choice), null);
  });
  test("loses seconds and extra blanks", () => {
    assert.equal(cronOf({ every: "day", time: "02:30:15" }), "30 2 * * *");
    assert.equal(cronOf({ every: "cron", cron: "  1   2 * *  * " }), "1 2 * * *");
  });
});
