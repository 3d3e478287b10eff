"""The remote tier of a broker."""
