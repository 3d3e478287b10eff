"""A broker's settings in a file: as arguments they could be read by everybody on the machine."""

from collections.abc import Mapping
from pathlib import Path

from ottla.storage.files.java_properties import properties_line


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{properties_line(*one)}\n" for one in settings.items()))
    return path
