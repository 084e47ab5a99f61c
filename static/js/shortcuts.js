/** "/" leads to the page's search field. */

const TYPING = "input, textarea, select, [contenteditable]";

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest(`${TYPING}, dialog`)) return;
  const field = document.querySelector('input[type="search"], .search-form input');
  if (!field) return;
  event.preventDefault(); // the slash is not typed into the field
  field.focus();
  field.select();
});
