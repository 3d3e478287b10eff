"""A log directory: its lock, its health, and the logs in it."""
