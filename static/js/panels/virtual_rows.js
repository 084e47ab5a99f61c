/** A long table of which only the rows in sight, and some around them, are in the page. */

import { KeyedRows } from "../dom.js";

const ROUND_IT = 15;
const ROW_HEIGHT = 29;

export class VirtualRows {
  /** `scroller` is the scrolling box, `rows` the table's body inside it. `create` and `update` as in KeyedRows. */
  constructor(scroller, rows, { create, update }) {
    this.scroller = scroller;
    this.table = rows.closest("table");
    this.keyed = new KeyedRows(rows, { create, update });
    this.items = [];
    this.keyOf = null;
    this.height = ROW_HEIGHT;
    this.waiting = false;
    scroller.addEventListener("scroll", () => this.#soon());
    new ResizeObserver(() => this.#soon()).observe(scroller);
  }

  get rows() {
    return this.keyed.rows;
  }

  /** Shows those of `items` that are in sight. All rows are taken to be as high as those that are shown. */
  show(items, keyOf) {
    Object.assign(this, { items, keyOf });
    this.#draw();
  }

  #soon() {
    if (this.waiting || !this.keyOf) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.#draw();
    });
  }

  #draw() {
    const { scroller, items, height } = this;
    const first = Math.max(0, Math.min(items.length, Math.floor(scroller.scrollTop / height)) - ROUND_IT);
    const end = Math.min(items.length, first + Math.ceil(scroller.clientHeight / height) + 2 * ROUND_IT);
    this.table.style.marginTop = `${first * height}px`;
    this.table.style.marginBottom = `${(items.length - end) * height}px`;
    this.keyed.show(items.slice(first, end), this.keyOf);
    const body = this.keyed.parent;
    if (end > first && body.offsetHeight) this.height = body.offsetHeight / (end - first);
  }
}
