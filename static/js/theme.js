/* Runs before the first paint, so that the page never flashes in the wrong theme. */
(() => {
  "use strict";
  const root = document.documentElement;
  let theme = "auto";
  try {
    theme = localStorage.getItem("glassmq.theme") || "auto";
  } catch {
    theme = "auto"; // storage may be blocked; the page then follows the system
  }
  root.dataset.theme = ["light", "dark"].includes(theme) ? theme : "auto";

  document.addEventListener("change", (event) => {
    if (event.target?.name !== "theme") return;
    root.dataset.theme = event.target.value;
    try {
      localStorage.setItem("glassmq.theme", event.target.value);
    } catch {
      return; // the choice is lost with this page
    }
  });
  document.addEventListener("DOMContentLoaded", () => {
    const chosen = document.querySelector(`input[name="theme"][value="${root.dataset.theme}"]`);
    if (chosen) chosen.checked = true;
  });
})();
