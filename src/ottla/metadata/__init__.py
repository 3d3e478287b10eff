"""A cluster's metadata: its image, the records that change it, and what controllers decide on it.

Start at `image.py`.
"""
