"""From log directories to an open broker."""
