"""Where tables are: in a directory, or in an object store."""
