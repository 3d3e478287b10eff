"""Background work of the broker on logs: retention, cleaning, moves between directories."""
