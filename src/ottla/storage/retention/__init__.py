"""Retention: which segments are deleted, why, and the first step of their deletion."""
