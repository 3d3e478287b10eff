"""Bytes and their meaning: varints, checksums, compression, and declared messages.

May import `base` and `config`. Start at `schema.py`.
"""
