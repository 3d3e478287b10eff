"""What a table is on the disk: manifest, files, and what keeps them few."""
