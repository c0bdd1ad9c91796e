"""The app ``dynamodb``: MLflow's own server, with shorter ways through it."""
