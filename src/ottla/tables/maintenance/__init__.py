"""The upkeep of a table: files merged or sorted, and files that no reader needs removed."""
