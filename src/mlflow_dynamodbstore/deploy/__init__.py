"""Making and removing a table on AWS: the stack, and who may do what with the table."""
