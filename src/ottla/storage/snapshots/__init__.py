"""Snapshots of a log directory: created, restored, and copied to new directories (branches)."""
