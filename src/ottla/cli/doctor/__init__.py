"""`ottla doctor`: problems of a broker or its directories, and how to fix them."""
