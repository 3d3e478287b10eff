"""`ottla queue`: what share groups have in flight, and why; dead letters."""
