"""Measurements: one subject a file, all of them by `python -m benchmarks`.

benchmarks/lab-book.md says what the figures mean and which were measured where; docs/performance.md
has what a user needs of them.
"""
