"""A small registry for development: subjects in a compacted topic, and Confluent's API over it."""
