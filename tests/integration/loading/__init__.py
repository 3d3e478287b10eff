"""Loads as a user has them, with `--engine local`: what Spark has no part in."""
