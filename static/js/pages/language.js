/** The header's button that shows the pages in another language, and remembers it for a year in a cookie. */

const YEAR_S = 365 * 24 * 3600;

document.addEventListener("click", (event) => {
  const language = event.target.closest("[data-language]")?.dataset.language;
  if (!language) return;
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `glassmq_language=${language}; path=/; max-age=${YEAR_S}; samesite=lax${secure}`;
  location.reload();
});
