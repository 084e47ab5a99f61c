// Shows the OpenAPI document. A separate file, because the Content-Security-Policy forbids inline scripts.
SwaggerUIBundle({
  url: "/api/v1/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
});
