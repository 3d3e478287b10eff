"""`ottla doctor`: what is wrong with a broker or its directories, and what repairs it."""
