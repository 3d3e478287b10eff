"""The remote tier of a broker: which segments it has, what is copied to it, and deleted there."""
