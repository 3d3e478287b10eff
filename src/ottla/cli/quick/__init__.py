"""`ottla quick`: a temporary broker in a temporary directory."""
