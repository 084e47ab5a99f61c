/** Ctrl-K, or the header's button: go to a page, topic, group or message by a part of its name. */

import { el } from "./dom.js";
import { visible } from "./text/format.js";
import { requestPages } from "./http.js";
import { groupHref, messageHref, topicHref } from "./links.js";
import { destinations } from "./text/palette_match.js";
import { t } from "./text/translate.js";
import { word } from "./text/words.js";

const MOST_NAMES = 5_000;
const FRESH_MS = 10_000;

const names = { groups: [], topics: [], readAt: -Infinity };
let box = null;

/** Opens the palette, or closes the open one. */
export function togglePalette() {
  box ??= build();
  if (box.dialog.open) {
    box.dialog.close();
    return;
  }
  if (document.querySelector("dialog[open]")) return; // a question is waiting for its answer
  box.input.value = "";
  box.note.textContent = "";
  show();
  box.dialog.showModal();
  if (performance.now() - names.readAt > FRESH_MS) read();
}

function build() {
  const input = el("input", { class: "input", type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list",
    "aria-label": t("Go to"), maxlength: 255, autocomplete: "off", spellcheck: "false", placeholder: t("a page, topic, group or message id") });
  const list = el("ul", { id: "palette-list", role: "listbox", "aria-label": t("Places") });
  const note = el("p", { class: "palette-note", role: "status" });
  const dialog = el("dialog", { class: "dialog palette", "aria-label": t("Go to") }, input, list, note);
  input.addEventListener("input", show);
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) choose(chosen() + step);
    else if (event.key === "Enter") list.children[chosen()]?.querySelector("a").click();
    else return;
    event.preventDefault();
  });
  list.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  return { dialog, input, list, note };
}

/** Reads the names of topics and groups. Without them, pages and names typed in full can still be reached. */
async function read() {
  try {
    const [{ groups, hasMore }, { topics, hasMore: hasMoreTopics }] = await Promise.all([
      requestPages("/groups", "groups", MOST_NAMES), requestPages("/topics", "topics", MOST_NAMES)]);
    names.groups = [...new Set(groups.map(({ group }) => group))];
    names.topics = [...new Set(topics.filter(({ system }) => !system).map(({ topic }) => topic))];
    names.readAt = performance.now();
    box.note.textContent = hasMore || hasMoreTopics ? t("Not all topics and groups are offered here. Type a name in full.") : "";
    show();
  } catch (error) {
    box.note.textContent = t("Topics and groups are not offered: {0}", error.message);
  }
}

function show() {
  const pages = [...document.querySelectorAll(".nav a")].map((link) => ({ text: link.textContent.trim(), href: link.getAttribute("href") }));
  const found = destinations(box.input.value.trim(), { pages, ...names }, { groupHref, messageHref, topicHref });
  box.list.replaceChildren(...found.map(({ kind, text, href }, index) =>
    el("li", { role: "option", id: `palette-${index}` },
      el("a", { href, tabindex: -1 }, el("bdi", {}, visible(text)), el("span", { class: "palette-kind" }, word(kind))))));
  choose(0);
}

const chosen = () => [...box.list.children].findIndex((item) => item.ariaSelected === "true");

function choose(index) {
  const { children } = box.list;
  const wanted = Math.min(Math.max(index, 0), children.length - 1);
  [...children].forEach((item, place) => { item.ariaSelected = String(place === wanted); });
  children[wanted]?.scrollIntoView({ block: "nearest" });
  box.input.setAttribute("aria-activedescendant", children.length ? `palette-${wanted}` : "");
}
