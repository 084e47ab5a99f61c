/** "/" leads to the page's search field; Ctrl-K, the header's button, and "/" on other pages open the palette. */

const TYPING = "input, textarea, select, [contenteditable]";
const openPalette = async () => (await import("./palette.js")).togglePalette();

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest(`${TYPING}, dialog`)) return;
  event.preventDefault(); // the slash is not typed into the field
  const field = document.querySelector('input[type="search"], .search-form input');
  if (!field) {
    openPalette();
    return;
  }
  field.focus();
  field.select();
});

document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault(); // browsers lead to the address bar
  openPalette();
});
document.querySelector("[data-opens-palette]")?.addEventListener("click", openPalette);
