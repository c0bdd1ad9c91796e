"""Names that are unique: guards that keep them so, and revisions of what they stand for."""
