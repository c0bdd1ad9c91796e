"""Evaluation: datasets, scorers and issues."""
