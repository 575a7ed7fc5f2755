// Opens the reference: the document of this server, tried out against this server.
"use strict";

SwaggerUIBundle({
  url: "/schema",
  dom_id: "#reference",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  defaultModelRendering: "model",
  displayRequestDuration: true,
  filter: true,
  // The key stays in the memory of this page.
  persistAuthorization: false,
  tryItOutEnabled: true,
  validatorUrl: null,
});
