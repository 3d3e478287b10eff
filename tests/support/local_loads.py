"""Loads, reruns and compactions whose tasks run in the test's process, where no Spark is needed."""

from ottla import tables
from ottla.base.events import pass_over
from ottla.loading import load as loading
from ottla.loading import rerun as rerunning
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import LoadReport, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun_plan import RerunRange
from ottla.tables.maintenance.optimize import OptimizeOptions, OptimizeReport
from ottla.tables.writing.progress import OnProgress


def load(
    source: str,
    topic: str,
    into: str,
    *,
    progress: OnProgress = pass_over,
    options: LoadOptions | None = None,
) -> LoadReport:
    """As `ottla.spark.load.load`."""
    route = LoadRoute(source, topic, into)
    return loading.load(load_job(route, LocalEngine(), progress, options))


def rerun(
    route: LoadRoute,
    wanted: RerunRange,
    *,
    progress: OnProgress = pass_over,
    options: LoadOptions | None = None,
) -> LoadReport:
    """As `ottla.spark.load.rerun`."""
    return rerunning.rerun(load_job(route, LocalEngine(), progress, options), wanted)


def optimize(
    path: str, *, progress: OnProgress = pass_over, options: OptimizeOptions | None = None
) -> OptimizeReport:
    """As `ottla.spark.load.compact`."""
    return tables.optimize(path, LocalEngine(), progress, options)
