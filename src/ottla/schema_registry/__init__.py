"""Schemas of records that carry only an id: registries, and the framing with the id."""
