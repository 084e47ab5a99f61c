import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { addLag, addPast } from "../../static/js/panels/sparkline.js";

const trendOf = (...lags) => {
  const trend = { last: undefined, values: [] };
  for (const [minute, lag] of lags) addLag(trend, minute, lag);
  return trend;
};

describe("the trend of a lag", () => {
  test("has the last value of each minute", () => {
    assert.deepEqual(trendOf([100, 1], [100, 2], [101, 3]), { last: 101, values: [2, 3] });
  });
  test("does not know the minutes in which nothing was seen", () => {
    assert.deepEqual(trendOf([100, 1], [103, 4]).values, [1, null, null, 4]);
  });
  test("has an hour, also after a long pause", () => {
    const { values } = trendOf([100, 1], [5000, 4]);
    assert.deepEqual([values.length, values.at(-2), values.at(-1)], [60, null, 4]);
    assert.equal(trendOf(...Array.from({ length: 90 }, (_, i) => [i, i])).values[0], 30);
  });
  test("goes on in its last minute when the clock goes back", () => {
    assert.deepEqual(trendOf([100, 1], [98, 5]), { last: 100, values: [5] });
  });
  test("begins with the history, without the minutes that the page saw itself", () => {
    const trend = trendOf([100, 7], [101, 8]);
    addPast(trend, 40, Array.from({ length: 60 }, (_, i) => (i === 59 ? null : 40 + i)));
    assert.equal(trend.values.length, 60);
    assert.deepEqual(trend.values.slice(0, 2), [42, 43]);
    assert.deepEqual(trend.values.slice(-4), [98, null, 7, 8]);
    addPast(trend, 40, Array(60).fill(0));
    assert.deepEqual(trend.values.slice(0, 2), [42, 43], "only once");
  });
});
