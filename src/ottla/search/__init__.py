"""Search for records: their sources, their fields, and the filters."""
