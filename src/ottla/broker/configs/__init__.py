"""Settings that clients change at run time: what is on disk, and what is in effect."""
