"""`make image-steps`: follows the Dockerfile where there is no container engine.

The instructions are read from its text. A virtual environment of its own runs each `pip install`,
with the wheels of dist/ or of the folder that is named; then what the image starts is started,
asked for its health, and stopped. The image's paths are in a temporary folder. Lines that change
the machine (a user, and what belongs to it) are only printed.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

RELEASE = Path(__file__).resolve().parent
DOCKERFILE = RELEASE / "Dockerfile"
FOLDERS = ("/wheels", "/var/lib/ottla")
"""Of the image."""


def instructions_of(text: str) -> list[tuple[str, str]]:
    """Each instruction's name and its arguments, in order."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [
        (name, rest.strip())
        for name, _, rest in (one.partition(" ") for one in lines)
        if name and not name.startswith("#")
    ]


def command_of(arguments: str) -> list[str]:
    """The words of a command in JSON, after the options of the instruction."""
    words: list[str] = json.loads(arguments[arguments.index("[") :])
    return words


def main(wheels: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Steps(Path(folder), wheels).follow(instructions_of(DOCKERFILE.read_text()))


class Steps:
    """The image's files are below `root`; the build context is the folder of wheels."""

    def __init__(self, root: Path, context: Path) -> None:
        self._root, self._context = root, context
        self._binaries = root / "venv" / "bin"
        self._environment = {
            "PATH": f"{self._binaries}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(root),
        }

    def follow(self, instructions: list[tuple[str, str]]) -> None:
        """Raises `SystemExit` if a step fails."""
        start: list[str] = []
        health: list[str] = []
        for name, arguments in instructions:
            match name:
                case "FROM":
                    subprocess.run([sys.executable, "-m", "venv", self._root / "venv"], check=True)
                case "COPY":
                    self._copy(*arguments.split())
                case "RUN" if shlex.split(arguments)[0] == "pip":
                    self._run(arguments)
                case "ENV":
                    variable, _, value = arguments.partition("=")
                    self._environment[variable] = value
                case "ENTRYPOINT":
                    start = command_of(arguments)
                case "HEALTHCHECK":
                    health = command_of(arguments)
                case _:
                    print(f"not done: {name} {arguments}")
        self._serve(start, health)

    def _copy(self, pattern: str, target: str) -> None:
        place = Path(self._placed(target))
        place.mkdir(parents=True)
        found = sorted(self._context.glob(pattern))
        if not found:
            sys.exit(f"{self._context}: there is no wheel; run make wheels")
        for one in found:
            shutil.copy(one, place)

    def _run(self, line: str) -> None:
        print(line, flush=True)
        command = shlex.split(self._placed(line))
        if subprocess.run(command, env=self._environment, check=False).returncode:
            sys.exit(f"failed: {line}")

    def _serve(self, start: list[str], health: list[str]) -> None:
        """At ports that are free here, in place of those of the image."""
        Path(self._placed("/var/lib/ottla")).mkdir(parents=True)
        environment = {name: with_free_port(text) for name, text in self._environment.items()}
        command = [with_free_port(self._placed(one)) for one in start]
        print(*start, flush=True)
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        ready = process.stdout.readline()
        print(ready.strip())
        asked = [self._placed(one) for one in health]
        is_healthy = subprocess.run(asked, env=environment, check=False).returncode == 0
        process.send_signal(signal.SIGTERM)
        if process.wait() or not is_healthy or not ready.startswith("ready "):
            sys.exit(f"failed: {shlex.join(start)}")

    def _placed(self, text: str) -> str:
        for folder in FOLDERS:
            text = text.replace(folder, f"{self._root}{folder}")
        return text


def with_free_port(text: str) -> str:
    """Any address at all in it gets a port that nobody has here."""
    with socket.create_server(("", 0)) as free:
        return re.sub(r"0\.0\.0\.0:\d+", f"127.0.0.1:{free.getsockname()[1]}", text)


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or [RELEASE.parent / "dist"]))
