"""The files next to a segment's log: indexes and producer snapshots."""
