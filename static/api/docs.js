// Shows the OpenAPI document. A separate file, because the Content-Security-Policy forbids inline scripts.
SwaggerUIBundle({
  url: "/api/v1/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
});

// Swagger UI has a dark theme of its own; it follows the theme of the site.
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function followTheme() {
  const { theme } = document.documentElement.dataset;
  document.documentElement.classList.toggle("dark-mode", theme === "dark" || (theme !== "light" && dark.matches));
}

dark.addEventListener("change", followTheme);
new MutationObserver(followTheme).observe(document.documentElement, { attributeFilter: ["data-theme"] });
followTheme();
