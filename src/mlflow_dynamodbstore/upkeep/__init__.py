"""Upkeep of a table: cleanup of orphans, indexes and their backfills, statistics, health."""
