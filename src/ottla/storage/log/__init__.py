"""One partition's log: append, truncate, and the state of its producers and epochs."""
