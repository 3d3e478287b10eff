"""`ottla mirror`: copy another log, reproduce it elsewhere, and verify the copy."""
