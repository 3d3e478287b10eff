"""`ottla log`: dump, check and repair a log's files without a broker."""
