"""Metrics of a running broker: where the values come from, and for how long they are served."""
