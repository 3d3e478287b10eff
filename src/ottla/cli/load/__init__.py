"""`ottla load`: topics loaded into tables with Spark."""
