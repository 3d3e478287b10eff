"""`ottla groups`: how far consumer groups are, and where they continue."""
