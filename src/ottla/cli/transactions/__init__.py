"""`ottla transactions`: shows transactions, and aborts hanging ones."""
