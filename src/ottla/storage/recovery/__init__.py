"""What a start finds in a partition directory, and what it does about it."""
