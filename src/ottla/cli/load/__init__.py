"""`ottla load`: topics loaded into tables."""
