"""Copying a whole table, item by item as stored: to another table, to a file, and from a file."""
