"""Ottla on Spark: a data source without jars, a stream, a sink, and jobs on executors.

The only room that imports pyspark. `source.py`: the data source; `load.py`: loads into tables with
the tasks of a session.
"""
