"""Spark's Python daemon, which forks a process for each task, for sessions that Ottla starts.

Java closes a pipe as soon as a query has enough rows. A process that has not reached Ottla's code
yet would then print a traceback to the standard error of a successful job; processes forked from
this daemon do not.
"""

from pyspark.daemon import manager

from ottla.spark.worker import hang_up_quietly

if __name__ == "__main__":
    hang_up_quietly()
    manager()
