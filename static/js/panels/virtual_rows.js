/** A long table of which only the rows in sight, and some around them, are in the page. */

import { KeyedRows } from "../dom.js";

const AROUND = 15;
const ROW_HEIGHT = 29;

export class VirtualRows {
  /**
   * `scroller` is the scrolling box, `rows` the table's body inside it. `create`, `update` and `reuse` as in KeyedRows. `around`
   * rows are added above and below those in sight; fewer suit rows that change all the time.
   */
  constructor(scroller, rows, { create, update, reuse = false, around = AROUND }) {
    this.scroller = scroller;
    this.table = rows.closest("table");
    this.keyed = new KeyedRows(rows, { create, update, reuse });
    this.around = around;
    this.items = [];
    this.keyOf = null;
    this.height = ROW_HEIGHT;
    this.waiting = false;
    // Sizes are read here, when the browser has them anyway. Reading one while drawing would cost a layout.
    this.top = scroller.scrollTop;
    this.room = scroller.clientHeight;
    scroller.addEventListener("scroll", () => {
      this.top = scroller.scrollTop;
      this.#soon();
    });
    const sizes = new ResizeObserver(() => {
      const shown = this.keyed.rows.size;
      this.room = scroller.clientHeight;
      if (shown && rows.offsetHeight) this.height = rows.offsetHeight / shown;
      this.#soon();
    });
    sizes.observe(scroller);
    sizes.observe(rows);
  }

  get rows() {
    return this.keyed.rows;
  }

  /** Shows those of `items` that are in sight. All rows are taken to be as high as those that are shown. */
  show(items, keyOf) {
    Object.assign(this, { items, keyOf });
    this.#draw();
  }

  /** Keeps the rows in sight where they are when `added` items come before them, unless the first one is in sight. */
  keepPlace(added) {
    if (this.top <= 0 || added <= 0) return;
    this.scroller.scrollTop += added * this.height;
    this.top = this.scroller.scrollTop;
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
    const { items, height, around } = this;
    const first = Math.max(0, Math.min(items.length, Math.floor(this.top / height)) - around);
    const end = Math.min(items.length, first + Math.ceil(this.room / height) + 2 * around);
    this.table.style.marginTop = `${first * height}px`;
    this.table.style.marginBottom = `${(items.length - end) * height}px`;
    this.keyed.show(items.slice(first, end), this.keyOf);
  }
}
