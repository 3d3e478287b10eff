"""Metrics of a running broker for Prometheus: their names, where values come from, and HTTP."""
