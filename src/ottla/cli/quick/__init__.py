"""`ottla quick`: a broker for as long as it is wanted, in a temporary directory."""
