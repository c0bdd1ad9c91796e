"""Experiments, runs and what is logged to them."""
