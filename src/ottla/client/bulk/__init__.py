"""Whole batches, without single records: for loads, mirrors and Spark."""
