"""MLflow's registry of MCP servers: servers, versions, tags, aliases and access endpoints."""
