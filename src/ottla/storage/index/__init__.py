"""The files beside a segment that find things in it: indexes and snapshots."""
