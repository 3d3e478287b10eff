"""`ottla tier`: list, check and explain what lies in a remote tier, and restore logs from it."""
