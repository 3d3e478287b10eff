"""`ottla schemas`: subjects of a schema registry."""
