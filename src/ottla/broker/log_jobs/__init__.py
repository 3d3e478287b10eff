"""What the broker does to logs by itself: retention, cleaning, moves between directories."""
