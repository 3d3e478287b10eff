"""Metrics for Prometheus: their names, their samples, and the server that answers over HTTP."""
