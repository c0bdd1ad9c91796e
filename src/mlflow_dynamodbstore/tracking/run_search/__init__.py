"""Searching runs: from a filter to a plan, from a plan to pages."""
