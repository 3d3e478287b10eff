"""`ottla snapshot`: a data directory kept as it is, brought back, and branched off."""
