"""What clients may use, what they have used, and which clients are throttled."""
