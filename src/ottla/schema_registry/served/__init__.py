"""A small schema registry for development: subjects in a compacted topic, with Confluent's API."""
