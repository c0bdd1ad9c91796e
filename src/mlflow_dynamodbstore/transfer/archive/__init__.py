"""A whole table into another one, into a file, and out of a file, item by item as stored."""
