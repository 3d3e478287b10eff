"""Lets Spark find the data source `ottla` by itself: it asks modules named like this one.

Of every importable top-level module `pyspark_*`, PySpark registers the `DefaultSource`. So
`spark.read.format("ottla")` works wherever Ottla is installed, and nothing needs registering.
"""

from ottla.spark.source import OttlaSource as DefaultSource

__all__ = ["DefaultSource"]
