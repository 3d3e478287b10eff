"""Schemas of records that carry only an id: where they lie, and the framing that names them."""
