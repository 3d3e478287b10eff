"""Opens log directories as a broker."""
