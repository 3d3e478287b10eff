"""Ottla beside other people's code."""
