/** Small DOM helpers for the panels. All text is set as textContent, never as markup, and letters in it that hide or turn
 * text are shown by their codes (`visible`). */

import { visible } from "./text/format.js";
import { t } from "./text/translate.js";

/** An element with attributes and children; strings become text nodes. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : shownValue(name, value));
  }
  node.append(...children.map((child) => (typeof child === "string" ? visible(child) : child)));
  return node;
}

/** Titles and labels are read by people; other attributes keep what was sent. */
const shownValue = (name, value) => (name === "title" || name === "aria-label" ? visible(value) : String(value));

const FITS_ANYWHERE = 15;

/** A table cell. A long text is clipped to its column; `title` holds the whole of it. */
export function cell(kind, title, ...children) {
  const node = el("td", { role: "cell", class: kind || null, title }, ...children);
  if (node.textContent.length > FITS_ANYWHERE) node.classList.add("long");
  return node;
}

/** Sets whether a cell is clipped to its column: it is if a text of this length might not fit. */
export function clipLong(node, length) {
  node.classList.toggle("long", length > FITS_ANYWHERE);
}

/** A queue's name. When it does not fit, the topic is clipped and the queue id stays visible. */
export function queueName(topic, queueId) {
  return el("span", { class: "queue-place" }, el("span", { class: "queue-topic" }, topic), el("span", {}, queueIdText(queueId)));
}

export const queueIdText = (queueId) => `@${Number(queueId) < 0 ? t("any") : queueId}`;

/** Sets the text only when it changed, to avoid needless layout. A text node that is there is changed and not replaced:
 * a page that shows many changes would leave thousands of them to the garbage collector. */
export function setText(node, text) {
  const shown = visible(text ?? "");
  const first = node.firstChild;
  if (first !== null && first === node.lastChild && first.nodeType === Node.TEXT_NODE) {
    if (first.data !== shown) first.data = shown;
  } else if (node.textContent !== shown) node.textContent = shown;
}

export function setAttribute(node, name, value) {
  const text = value === null ? null : shownValue(name, value);
  if (text === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** Whether text in the node is selected. Somebody may be about to copy it, so it must stay. */
export function hasSelection(node) {
  const selection = window.getSelection();
  return !selection.isCollapsed && selection.containsNode(node, true);
}

/** The panel with that name; `part(name)` returns its element with that data-part. */
export function panel(name) {
  const root = document.querySelector(`[data-panel="${name}"]`);
  return { root, part: (part) => root.querySelector(`[data-part="${part}"]`) };
}

/**
 * Keeps the children of `parent` equal to a list of items, one row an item, by key. A row is created once, updated in
 * place, moved only when the order changed, and removed when its item is gone. If `leave(row, key)` returns true, the
 * row stays, and `leave` must remove it later. With `reuse`, a row whose item is gone becomes the row of a new item, and
 * `update` must set all that it shows. That suits a table in which items come and go many times a second.
 */
export class KeyedRows {
  constructor(parent, { create, update, leave = () => false, reuse = false }) {
    Object.assign(this, { parent, create, update, leave, reuse });
    this.rows = new Map();
    this.spare = new Set();
  }

  show(items, keyOf) {
    const wanted = new Set(items.map(keyOf));
    for (const [key, row] of this.rows) {
      if (wanted.has(key)) continue;
      this.rows.delete(key);
      if (this.reuse) this.spare.add(row);
      else if (!this.leave(row, key)) row.remove();
    }
    let cursor = this.parent.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      let row = this.rows.get(key);
      if (!row) {
        row = this.#spareRow(cursor) ?? this.create(item);
        this.rows.set(key, row);
      }
      this.update(row, item);
      while (cursor && (cursor.hasAttribute("data-leaving") || this.spare.has(cursor))) cursor = cursor.nextElementSibling;
      if (cursor === row) cursor = cursor.nextElementSibling;
      else this.parent.insertBefore(row, cursor);
    }
    for (const row of this.spare) row.remove();
    this.spare.clear();
  }

  /** A row whose item is gone, if possible the one that is already in place; undefined if there is none. */
  #spareRow(inPlace) {
    const row = this.spare.has(inPlace) ? inPlace : this.spare.values().next().value;
    this.spare.delete(row);
    return row;
  }
}

/** Highlights a node for a second, in colours of the style sheet. The browser looks them up when it draws. */
export function flash(node, background, colour) {
  if (calm.matches) return;
  node.animate([{ backgroundColor: `var(${background})`, color: `var(${colour})` }, {}], { duration: 1_000, easing: "ease-out" });
}

export const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
