"""`ottla bench`: how fast a target accepts and serves records."""
