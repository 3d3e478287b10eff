"""The option `--engine` of commands whose work is cut into tasks, and the engine that it names."""

import sys
from contextlib import AbstractContextManager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.base.extras import install_command

if TYPE_CHECKING:
    from ottla.tables import Engine

SPARK = "spark"
LOCAL = "local"

WITHOUT_SPARK = "add --engine local to do without Spark"

engine_option = click.option(
    "--engine",
    type=click.Choice([SPARK, LOCAL]),
    default=SPARK,
    show_default=True,
    help="Where the tasks run: on Spark, or in this process, which needs no Java and is faster "
    "for little work.",
)


def open_engine(name: str) -> "AbstractContextManager[Engine]":
    """Raises `UserError` if Spark is asked for but not installed."""
    if name == LOCAL:
        from ottla.loading.local_engine import LocalEngine

        return LocalEngine()
    if find_spec("pyspark") is None:
        raise UserError(f"pyspark is not installed: {install_command('spark')}, or {WITHOUT_SPARK}")
    from ottla.spark.engine import SparkEngine
    from ottla.spark.session import SessionSettings

    # The command reports an error of a task in one line.
    return SparkEngine(None, SessionSettings(log_level="OFF"))


class _NoPandas:
    """An import hook that finds no pandas, as if it were not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def quicken(name: str) -> None:
    """Shortens the start of a command with the local engine; call it before importing anything
    else.

    It has no effect in another program that calls the command.
    """
    begun = getattr(sys.modules["__main__"], "main", None)
    is_own = getattr(begun, "__module__", None) == "ottla.cli.start"
    if name == LOCAL and is_own and "pyarrow" not in sys.modules:
        _keep_pandas_out()


def _keep_pandas_out() -> None:
    """Keeps Arrow from importing pandas when its first array is made; Arrow does without if the
    import fails.

    The import is a third of the time of a load of few records, and nothing here uses pandas.
    """
    sys.meta_path.insert(0, _NoPandas)
    with suppress(ModuleNotFoundError):
        import pyarrow as pa

        pa.array([])
    sys.meta_path.remove(_NoPandas)
