import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { groupHref, messageHref, topicHref } from "../../static/js/links.js";
import { destinations } from "../../static/js/text/palette_match.js";

const links = { groupHref, messageHref, topicHref };
const known = {
  pages: [{ text: "Groups", href: "/groups" }, { text: "Reports", href: "/reports" }],
  groups: ["re-orders", "orders", "billing"], topics: ["orders", "my-orders"],
};
const found = (typed, names = known) => destinations(typed, names, links).map(({ kind, text }) => `${kind} ${text}`);

describe("the palette", () => {
  test("offers pages first while nothing is typed", () => {
    assert.deepEqual(found(""), ["page Groups", "page Reports", "group re-orders", "group orders", "group billing",
      "topic orders", "topic my-orders"]);
  });
  test("puts an equal name first, then a beginning, then a part, in any case of letters", () => {
    assert.deepEqual(found("Orders"), ["group orders", "topic orders", "group re-orders", "topic my-orders",
      "group Orders", "topic Orders", "message Orders"]);
    assert.deepEqual(found("re").slice(0, 2), ["page Reports", "group re-orders"]);
  });
  test("leads to a name that is not known, and to a message", () => {
    assert.deepEqual(destinations("a/b", known, links).map(({ href }) => href),
      [groupHref("a/b"), topicHref("a/b"), messageHref({ message_id: "a/b" })]);
    const id = "7F0000011170273B018769DF202C0001";
    assert.deepEqual(found(id), [`message ${id}`]);
  });
  test("is short, however many names there are", () => {
    const many = Array.from({ length: 5_000 }, (_, number) => `group-${number}`);
    const places = found("group-", { ...known, groups: many });
    assert.equal(places.length, 12);
    assert.deepEqual(places.slice(-3), ["group group-", "topic group-", "message group-"]);
    assert.equal(found("", { ...known, groups: many }).length, 9);
  });
});
