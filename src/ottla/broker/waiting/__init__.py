"""Whoever waits for something: fetches for records, changes for their result."""
