"""A project for Spark Declarative Pipelines whose source is a log."""
