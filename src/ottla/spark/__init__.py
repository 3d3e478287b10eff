"""A pipeline on Spark: a data source without jars, and loads into Parquet exactly once.

The only place that imports pyspark; may import everything but the command line. Start at `load.py`
(what one load does, step by step), then `source.py` (how Spark's tasks read a log).
"""
