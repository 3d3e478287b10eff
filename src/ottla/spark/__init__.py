"""Ottla on Spark: a data source without jars, a stream, a sink, and jobs on executors.

The only room that imports pyspark. `source.py`: how Spark reads a log; `load.py`: how one is loaded
into a table with a session's tasks.
"""
