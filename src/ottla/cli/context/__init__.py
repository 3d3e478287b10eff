"""`ottla context`: named targets, so that a command line is short."""
