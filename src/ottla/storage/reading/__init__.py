"""Reading a directory that this process does not own and does not change."""
