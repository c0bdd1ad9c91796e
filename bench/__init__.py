"""Benchmarks: ``make bench``, or ``python -m bench`` from the repository's root."""
