"""From a frame to its handler, and back: which API, in which turn, counted and logged."""
