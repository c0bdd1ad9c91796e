"""From a filter string to pages of results."""
