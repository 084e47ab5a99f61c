/** The little that the panels need of the DOM. Everything that comes from outside goes through textContent. */

/** An element with attributes and children; texts become text nodes. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children);
  return node;
}

const FITS_ANYWHERE = 15;

/** A table cell; a text that may be too long for its column is clipped, with the whole of it as its title. */
export function cell(kind, title, ...children) {
  const node = el("td", { role: "cell", class: kind || null, title }, ...children);
  if (node.textContent.length > FITS_ANYWHERE) node.classList.add("long");
  return node;
}

/** A queue's name; where it does not fit, the topic is cut, its number is not. */
export function queueName(topic, queueId) {
  return el("span", { class: "queue-place" }, el("span", { class: "queue-topic" }, topic), el("span", {}, `@${queueId}`));
}

/** Set a text only when it changed, so that nothing is laid out in vain. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  const text = value === null ? null : String(value);
  if (text === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** The panel of that name, and a finder for its parts marked with data-part. */
export function panel(name) {
  const root = document.querySelector(`[data-panel="${name}"]`);
  return { root, part: (part) => root.querySelector(`[data-part="${part}"]`) };
}

/**
 * Keeps the children of `parent` equal to a list of items, each known by its key: rows are made once, updated in
 * place, moved only when their order changed, and removed when their item is gone. `leave(row, key)` may keep a row
 * for a moment (return true) and then removes it itself.
 */
export class KeyedRows {
  constructor(parent, { create, update, leave = () => false }) {
    this.parent = parent;
    this.create = create;
    this.update = update;
    this.leave = leave;
    this.rows = new Map();
  }

  show(items, keyOf) {
    const wanted = new Set(items.map(keyOf));
    for (const [key, row] of this.rows) {
      if (wanted.has(key)) continue;
      this.rows.delete(key);
      if (!this.leave(row, key)) row.remove();
    }
    let cursor = this.parent.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      let row = this.rows.get(key);
      if (!row) {
        row = this.create(item);
        this.rows.set(key, row);
      }
      this.update(row, item);
      while (cursor && cursor.hasAttribute("data-leaving")) cursor = cursor.nextElementSibling;
      if (cursor === row) cursor = cursor.nextElementSibling;
      else this.parent.insertBefore(row, cursor);
    }
  }
}

/** Let a node light up for a moment, in colours of the style sheet. */
export function flash(node, background, colour) {
  if (calm.matches) return;
  const style = getComputedStyle(document.documentElement);
  node.animate([{ backgroundColor: style.getPropertyValue(background), color: style.getPropertyValue(colour) }, {}],
    { duration: 1_000, easing: "ease-out" });
}

export const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
