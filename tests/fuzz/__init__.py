"""Garbage for everything that reads what a peer sends; `python -m tests.fuzz` looks for more."""
