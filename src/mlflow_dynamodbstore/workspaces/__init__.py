"""Workspaces: MLflow's tenants within one table."""
