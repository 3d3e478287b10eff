"""Loads, reruns and table optimizations on Spark: `ottla.loading`, with its tasks in a session."""

from typing import TYPE_CHECKING

from ottla import tables
from ottla.base.events import pass_over
from ottla.loading import load as loading
from ottla.loading import rerun as rerunning
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import LoadReport, load_job
from ottla.loading.rerun_plan import RerunRange
from ottla.spark.engine import SparkEngine
from ottla.tables import OnProgress, OptimizeOptions, OptimizeReport
from ottla.tables import Progress as Progress
from ottla.tables import Step as Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load(
    source: str,
    topic: str,
    into: str,
    *,
    spark: "SparkSession | None" = None,
    progress: OnProgress = pass_over,
    options: LoadOptions | None = None,
) -> LoadReport:
    """Loads a topic's new records; `source` is a data directory, or `HOST:PORT` of a broker.

    Without `spark` the process's session is used, or one is started for the load alone. Raises the
    errors of `ottla.loading.load.load`; the table is then unchanged.
    """
    with SparkEngine(spark) as engine:
        return loading.load(load_job(LoadRoute(source, topic, into), engine, progress, options))


def rerun(
    route: LoadRoute,
    wanted: RerunRange,
    *,
    spark: "SparkSession | None" = None,
    progress: OnProgress = pass_over,
    options: LoadOptions | None = None,
) -> LoadReport:
    """Reads a range of a table's topic again; arguments and errors as in `load` and
    `ottla.loading.rerun.rerun`."""
    with SparkEngine(spark) as engine:
        return rerunning.rerun(load_job(route, engine, progress, options), wanted)


def optimize(
    path: str,
    *,
    spark: "SparkSession | None" = None,
    progress: OnProgress = pass_over,
    options: OptimizeOptions | None = None,
) -> OptimizeReport:
    """Merges a table's small files; raises the errors of `ottla.tables.optimize`."""
    with SparkEngine(spark) as engine:
        return tables.optimize(path, engine, progress, options)
