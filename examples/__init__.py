"""Ottla at work on real data; each module runs with `python -m examples.NAME`."""
