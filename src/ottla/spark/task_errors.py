"""Extracts Ottla's errors from the text that Spark returns from its Python processes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.base.errors import TaskError, UserError
from ottla.base.patterns import lazy_pattern

_OWN_ERROR = lazy_pattern(r"^ottla(?:\.\w+)+\.(\w+Error): (.+)$", re.MULTILINE)
_WORKER_DIED = lazy_pattern(
    r"Python worker exited unexpectedly"
    r"|java\.(?:io\.EOF|io\.IO|net\.Socket)Exception(?:: (?:Broken pipe|Connection reset).*)?\n"
    r"(?:\s+at .*\n)*?\s+at org\.apache\.spark\.api\.python"
)
"""Java reports the exit, or a lost connection to a process of `org.apache.spark.api.python`."""


@contextmanager
def own_errors() -> Iterator[None]:
    """Replaces errors of Spark by Ottla's own errors, if those caused them."""
    try:
        yield
    except Exception as error:
        plain = own_error(error)
        if plain is error:
            raise
        raise plain from error


def own_error(error: Exception) -> Exception:
    """Extracts Ottla's error from the Python and Java traces around it; returns the error itself if
    there is none.

    Tasks and planning run in Spark's processes, which return only text.
    """
    text = str(error)
    found = _OWN_ERROR.findall(text)
    if found:
        kind, words = found[-1]
        return UserError(words) if kind == UserError.__name__ else TaskError(words, kind)
    if _WORKER_DIED.search(text):
        return TaskError(
            "a Python process of a Spark task was killed, as systems do when memory runs out; "
            "nothing is half done: run it again"
        )
    return error
