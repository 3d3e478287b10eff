"""A remote tier as a whole: what lies there, whether it is sound, and a log rebuilt from it."""
