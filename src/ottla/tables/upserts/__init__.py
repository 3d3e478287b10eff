"""Changes merged into a table with the latest row of each key."""
