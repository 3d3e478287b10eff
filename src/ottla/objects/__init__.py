"""Stores of objects: a directory, S3, Google Cloud Storage, Azure."""
