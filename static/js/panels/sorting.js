/** Sorting, filtering and bounding the rows of tables. */

import { setAttribute, setText } from "../dom.js";
import { count } from "../text/format.js";
import { writeQuery } from "../search_state.js";
import { t } from "../text/translate.js";

export const MOST_ROWS = 300;

export const byText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/**
 * The reader's sort order and filter for one table, which are kept in the page's address. `sorts` maps the data-sort of a column head to a comparison;
 * `textOf(item)` is the text that the filter searches. `changed()` is called after a change. At most `most` rows are
 * shown.
 */
export function tableChoice({ root, part, sorts, first, textOf, changed, most = MOST_ROWS }) {
  const query = new URLSearchParams(location.search);
  const sort = query.get("sort") ?? "";
  const chosen = { sort: Object.hasOwn(sorts, sort) ? sort : first, descending: query.has("descending"), words: wordsOf(query.get("q") ?? "") };
  if (part("filter")) part("filter").value = query.get("q") ?? "";
  showOrder();

  part("filter")?.addEventListener("input", (event) => {
    chosen.words = wordsOf(event.target.value);
    writeQuery({ q: event.target.value.trim() });
    changed();
  });
  root.querySelector("thead").addEventListener("click", (event) => {
    const name = event.target.closest("[data-sort]")?.dataset.sort;
    if (!name) return;
    chosen.descending = chosen.sort === name && !chosen.descending;
    chosen.sort = name;
    writeQuery({ sort: name === first ? "" : name, descending: chosen.descending ? "1" : "" });
    showOrder();
    changed();
  });

  function showOrder() {
    for (const button of root.querySelectorAll("[data-sort]")) {
      const order = button.dataset.sort === chosen.sort ? (chosen.descending ? "descending" : "ascending") : null;
      setAttribute(button.closest("th"), "aria-sort", order);
    }
  }

  return {
    get words() {
      return chosen.words;
    },
    filter(text) {
      part("filter").value = text;
      chosen.words = wordsOf(text);
    },
    /** The rows to show, and how many match. */
    of(items) {
      const matching = items.filter((item) => chosen.words.every((word) => textOf(item).toLowerCase().includes(word)));
      matching.sort(sorts[chosen.sort]);
      if (chosen.descending) matching.reverse();
      return { shown: matching.slice(0, most), matching: matching.length };
    },
  };
}

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** The foot of a table: how many rows are left out, if any; `all` says that all are shown. */
export function showLeftOut(node, { shown, matching, total, all, hasMore = false }) {
  const left = [];
  if (matching < total) left.push(t("{0} of {1} match", count(matching), count(total)));
  if (shown < matching) left.push(t("showing {0} of {1}; filter to see others", count(shown), count(matching)));
  if (hasMore) left.push(t("the first {0} by name; the others are not looked at", count(total)));
  setText(node, left.join(t("; ")) || (total ? all : ""));
}
