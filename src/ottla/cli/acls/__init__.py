"""`ottla acls`."""
