"""`ottla bench`: how fast a target takes and gives records."""
