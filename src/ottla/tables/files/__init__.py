"""Data files: read, written, and described by their footers."""
