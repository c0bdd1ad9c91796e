"""The model registry: models, versions, tags, aliases, prompts, webhooks."""
