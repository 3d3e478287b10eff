"""`ottla topics` and `delete-records`: show and change topics."""
