"""What is compiled when a wheel is built, where that can be done. The rest is pyproject's.

What a request runs through is compiled by mypyc as it stands, from its type annotations: a request
then takes 0.6 to 0.75 times the processor time. Without mypy, a compiler or Python's headers the
package is the same, and slower. An editable install leaves the broker as it is, since a file that
is edited would not be the one that runs; it compiles the loops over records and their bytes alone:
without them a batch of 160 takes four times as long to check, compaction twice as long, and a
producer three times.

OTTLA_COMPILE=0 leaves everything as it is: the wheel is then one for every platform.
MYPYC_OPT_LEVEL=0 spares the C compiler most of its time, where only the installation is tried.
"""

import logging
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

BROKER = {
    "base": "clock files principal timers timestamps",
    "broker": "broker scheduler",
    "broker/coordination": "runtime",
    "broker/groups": "coordinator",
    "broker/log_jobs": "jobs moves",
    "broker/quotas": "throttled_clients",
    "broker/records": "answers appends fetches",
    "broker/shares": "coordinator persister",
    "broker/topics": "partition removals topics",
    "broker/transactions": "coordinator endings",
    "broker/waiting": "background rooms",
    "client/producing": "accumulator batches partitioners",
    "codec": "crc32c lz4_blocks primitives varint",
    "coordinator": "plan shard",
    "coordinator/classic": "rebalance",
    "coordinator/consumer": "plan",
    "coordinator/share": "plan",
    "coordinator/transaction": "machine",
    "protocol": "framing headers",
    "record": "batch header_walk layout list_cutting list_packing walk",
    "server/authentication": "authentication",
    "server/dispatching": "dispatch metering request_context request_counts request_log turns",
    "server/handlers": "produce",
    "server/network": "busy_poll connection listener send_queue transport",
    "storage": "scan",
    "storage/files": "boot_note log_file",
    "storage/index": "index_file offset_index sparse_index tail_positions time_index"
    " transaction_index",
    "storage/segment": "segment segment_reader segment_recovery segment_view segments",
    "storage/log": (
        "append append_target conversion epoch_replay leader_epochs offsets partition_log"
        " producer_state reader rolling state writer"
    ),
    "storage/compaction": "compiled_key_filter output",
}
"""What one-record produce requests run through, and what inherits from it."""

LOOPS = {
    "client/producing": "accumulator batches partitioners",
    "record": "header_walk list_cutting list_packing walk",
    "storage/compaction": "compiled_key_filter",
}
"""Compiled in an editable install too: install again when one was edited."""

BUILDS = {"bdist_wheel", "build", "build_ext", "install"}
EDITABLE = {"editable_wheel", "develop", "--inplace"}
"""The commands for which the broker is worth the minute, and those for which the walk alone is."""


def broker_extensions() -> list[Extension]:
    is_editable = bool(EDITABLE & set(sys.argv))
    if not is_editable and not BUILDS & set(sys.argv):
        return []
    if os.environ.get("OTTLA_COMPILE") == "0":
        say("OTTLA_COMPILE=0: nothing is compiled; requests take more processor time")
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        say("mypy is not installed: nothing is compiled; requests take more processor time")
        return []
    rooms = LOOPS if is_editable else BROKER
    paths = [f"src/ottla/{room}/{name}.py" for room in rooms for name in rooms[room].split()]
    say(
        f"compiling {len(paths)} modules with mypyc and the C compiler"
        f"{'' if is_editable else ', about a minute'}; OTTLA_COMPILE=0 skips it"
    )
    for path in paths:
        say(f"  {path}")
    try:
        made: list[Extension] = mypycify(
            ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent", *paths],
            group_name="ottla_loops" if is_editable else "ottla_compiled",
            # The variable that mypy's own build knows.
            opt_level=os.environ.get("MYPYC_OPT_LEVEL", "3"),
            debug_level="0",
            multi_file=not is_editable,
        )
    except SystemExit:  # it has said why
        logging.warning("the broker is left as it is: this mypy cannot compile it")
        return []
    return made


def say(line: str) -> None:
    """To be seen in `pip install -v`, and wherever a build is run by hand."""
    print(f"ottla: {line}", file=sys.stderr, flush=True)


class Build(build):
    """Packs nothing that an earlier build left: a module of then could be a compiled one."""

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


def compile_on_all_cores(compiler: Any) -> None:
    """Has the C files of one extension, a file for each module, compiled side by side."""
    one_after_the_other = compiler.compile

    def compile_all(sources: list[str], *arguments: Any, **options: Any) -> list[str]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = pool.map(lambda one: one_after_the_other([one], *arguments, **options), sources)
            return [path for paths in made for path in paths]

    compiler.compile = compile_all


class BuildExtensions(build_ext):
    """Leaves out what fails; and of the broker's modules, which need each other, then all."""

    def build_extensions(self) -> None:
        self.force = True  # A module's own extension would stay older than what was edited.
        for one in self.extensions:
            one.optional = True
        compile_on_all_cores(self.compiler)
        super().build_extensions()
        paths = [Path(self.get_ext_fullpath(one.name)) for one in BROKER_EXTENSIONS]
        if not all(path.exists() for path in paths):
            say("the C compiler failed (see above): nothing is compiled")
            for path in paths:
                path.unlink(missing_ok=True)


BROKER_EXTENSIONS = broker_extensions()
setup(
    ext_modules=BROKER_EXTENSIONS,
    cmdclass={"build": Build, "build_ext": BuildExtensions},
)
