"""Measurements: one subject a file, all of them by `python -m benchmarks`.

What the figures mean and which were found where is told in docs/performance.md.
"""
