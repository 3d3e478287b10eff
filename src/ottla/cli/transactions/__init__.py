"""`ottla transactions`: a broker's transactions, and an end for those that hang."""
