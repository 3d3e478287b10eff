"""One segment and the row of them."""
