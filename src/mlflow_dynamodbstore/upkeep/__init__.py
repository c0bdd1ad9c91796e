"""Upkeep of a table: what expires, what is left over, what is indexed, and how it stands."""
