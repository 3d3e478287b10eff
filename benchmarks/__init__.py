"""Measurements: one subject a file, all of them by `python -m benchmarks`.

docs/performance.md says what the figures mean and which were measured where.
"""
