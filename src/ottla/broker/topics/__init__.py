"""Topics and their partitions: in memory, on disk, and during deletion."""
