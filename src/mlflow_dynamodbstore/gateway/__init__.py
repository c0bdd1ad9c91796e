"""The AI gateway's storage: secrets, model definitions, endpoints, budgets, guardrails."""
