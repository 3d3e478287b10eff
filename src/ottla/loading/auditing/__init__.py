"""The parts of an audit: the ledger, the rows, and the values."""
