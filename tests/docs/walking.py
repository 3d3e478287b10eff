"""A page's steps, done one after the other as its reader does them."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.docs.howto import Step, fits, steps_of
from tests.docs.shell import Shell
from tests.support.ports import free_port

ADDRESS = re.compile(r"\b(localhost|127\.0\.0\.1|0\.0\.0\.0|[a-z]+\.example):(\d{4,5})\b")

RunProgram = Callable[[str], str]
"""Runs a program of the page, and returns what it printed."""


def walk(page: str, directory: Path, run_program: RunProgram | None = None) -> None:
    """Fails where a step does, or prints what the page does not show.

    Programs are run by a Python of their own, or by `run_program` if one is given.
    """
    shell = Shell(directory)
    ports = _Ports()
    started: list[subprocess.Popen[str]] = []
    try:
        for step in steps_of(page):
            if step.program and run_program is not None:
                _compare(step, ports.on_page(run_program(ports.in_use(step.program))))
                continue
            line = ports.in_use(_cheaply(_in_background(step.line)))
            if step.is_endless:
                started.append(shell.start(line))
                continue
            done = shell.run(line)
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
            _compare(step, ports.on_page(done.stdout))
    finally:
        shell.stop_all(started)


def _compare(step: Step, printed: str) -> None:
    if step.is_compared:
        assert fits(step.shown, printed.splitlines()), f"{step.line}: {printed}"


def _in_background(line: str) -> str:
    """A reader has a second terminal for a broker."""
    is_server = line.startswith("ottla serve") and "--background" not in line
    return f"{line} --background" if is_server else line


def _cheaply(line: str) -> str:
    """Loads without Spark, whose start takes longer than all of a page; its tests load with it."""
    return re.sub(r"^ottla (load|table optimize) (?!.*--engine)", r"ottla \1 --engine local ", line)


class _Ports:
    """Free ports in the places of those that a page names; all its hosts are this machine."""

    def __init__(self) -> None:
        self._ports: dict[str, int] = {}
        self._addresses: dict[str, str] = {}

    def in_use(self, text: str) -> str:
        return ADDRESS.sub(self._replaced, text)

    def _replaced(self, found: re.Match[str]) -> str:
        port = self._ports.setdefault(found[2], free_port())
        address = f"127.0.0.1:{port}"
        self._addresses.setdefault(address, found[0])
        return address

    def on_page(self, text: str) -> str:
        for address, shown in self._addresses.items():
            text = text.replace(address, shown)
        return text
