"""`ottla topics` and `delete-records`: what topics hold, and changes to them."""
