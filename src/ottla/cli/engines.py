"""The option `--engine` of commands whose work is cut into tasks, and the engine that it names."""

import gc
import sys
from contextlib import AbstractContextManager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError

if TYPE_CHECKING:
    from ottla.loading.engine import Engine

SPARK = "spark"
LOCAL = "local"

WITHOUT_SPARK = "add --engine local to do without Spark"

_OBJECTS_UNTIL_COLLECTION = 50_000

engine_option = click.option(
    "--engine",
    type=click.Choice([SPARK, LOCAL]),
    default=SPARK,
    show_default=True,
    help="What runs the tasks: Spark, or this process alone, which needs no Java and is quicker "
    "where there is little to do.",
)


def open_engine(name: str) -> "AbstractContextManager[Engine]":
    """Raises `UserError` where Spark is asked for, and not installed."""
    if name == LOCAL:
        from ottla.loading.local_engine import LocalEngine

        return LocalEngine()
    if find_spec("pyspark") is None:
        raise UserError(f"pyspark is not installed: pip install 'ottla[spark]', or {WITHOUT_SPARK}")
    from ottla.spark.engine import SparkEngine
    from ottla.spark.session import SessionSettings

    # What goes wrong in a task is reported in one line, by the command.
    return SparkEngine(None, SessionSettings(log_level="OFF"))


class _NoPandas:
    """Finds no pandas, as where it is not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def quicken(name: str) -> None:
    """Makes the start of a command with the local engine short; called before all that it imports.

    Another program that calls the command is left as it is.
    """
    begun = getattr(sys.modules["__main__"], "main", None)
    is_own = getattr(begun, "__module__", None) == "ottla.cli.main"
    if name == LOCAL and is_own and "pyarrow" not in sys.modules:
        # Imports make many objects that stay, through which the collector would look for garbage.
        gc.set_threshold(_OBJECTS_UNTIL_COLLECTION)
        _keep_pandas_out()


def _keep_pandas_out() -> None:
    """Arrow imports pandas when its first array is made, and only if that fails does without.

    It is a third of what a load of few records takes, and nothing here uses it.
    """
    sys.meta_path.insert(0, _NoPandas)
    with suppress(ModuleNotFoundError):
        import pyarrow as pa

        pa.array([])
    sys.meta_path.remove(_NoPandas)
