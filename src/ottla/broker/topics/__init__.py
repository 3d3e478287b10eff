"""Topics and their partitions: in memory, on the disks, and on their way out."""
