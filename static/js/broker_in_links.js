/** Keeps the page's `?broker=` in the links that lead on, when they are about to be followed or copied. */

import { keepBroker } from "./brokers.js";

for (const type of ["pointerdown", "click", "contextmenu"]) {
  document.addEventListener(type, ({ target }) => {
    const link = target.closest?.("a[href]");
    if (link && !link.download) link.setAttribute("href", keepBroker(link.getAttribute("href"), location.href));
  }, true);
}
