"""Spark's daemon of Python, which forks a process for each task, in a session of ours.

Java closes a pipe as soon as a query has rows enough, whatever the process at its other end is at:
one that has not come to Ottla's code yet would put a traceback on the standard error of a job that
succeeded. Forked from here, none does.
"""

from pyspark.daemon import manager

from ottla.spark.worker import hang_up_quietly

if __name__ == "__main__":
    hang_up_quietly()
    manager()
