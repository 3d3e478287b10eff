"""Appends and fetches of records, and the answers of clients that waited."""
