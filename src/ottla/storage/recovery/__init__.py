"""Recovery at startup: the state of a partition directory, and its repair."""
