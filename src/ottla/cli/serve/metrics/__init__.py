"""Metrics of a running broker: how they are collected, and how long they are served."""
