"""One table contract, two engines."""
