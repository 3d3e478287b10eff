"""Runs command lines in one process in which a package is not installed: `MODULE < LINES`.

Prints for each line its exit code, standard output and standard error, as JSON.
"""

import contextlib
import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from click.testing import CliRunner

from ottla.cli.main import cli


class Missing(MetaPathFinder):
    """The imports of a package, and of what is in it, find nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] == self._name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def main() -> None:
    sys.meta_path.insert(0, Missing(sys.argv[1]))
    with contextlib.closing(sys.stdin) as lines:
        for line in lines:
            result = CliRunner().invoke(cli, json.loads(line), prog_name="ottla")
            print(json.dumps([result.exit_code, result.stdout, result.stderr]), flush=True)


if __name__ == "__main__":
    main()
