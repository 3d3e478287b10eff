"""Settings that clients change at run time: the stored state, and the config in effect."""
