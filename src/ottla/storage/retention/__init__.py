"""Decides which segments are deleted and why, and begins the deletion."""
