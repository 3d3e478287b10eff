"""The documents, and what makes them."""
