"""The parts of an audit: the manifest, the rows, and the values."""
