"""The files of a partition and of a log directory: names, log files, checkpoints."""
