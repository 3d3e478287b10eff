"""One segment: its log file and indexes, how they are read, checked and recovered."""
