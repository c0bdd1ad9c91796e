"""What stores share: context, events, policies, names, search, large values."""
