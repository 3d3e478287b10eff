"""What the columns of rows are named, and what is said of their values."""
