"""`ottla metadata`: the metadata log of a KRaft cluster."""
