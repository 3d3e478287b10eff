"""The active controller of a quorum: what it decides on the image, as records."""
