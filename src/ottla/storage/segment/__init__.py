"""One segment: its log file and indexes, and their reading, checking and recovery."""
