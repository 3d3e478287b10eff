"""What clients may use, what they have used, and who is held back."""
