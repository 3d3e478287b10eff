"""Errors of ours that were raised in a process of Spark's, and come back as text among traces."""

import re

from ottla.base.errors import OttlaError, UserError

_OWN_ERROR = re.compile(r"^ottla(?:\.\w+)+\.(\w+Error): (.+)$", re.MULTILINE)


class TaskError(OttlaError):
    """A task stopped at an error of ours; the text is that error's."""


def own_error(error: Exception) -> Exception:
    """Our own error out of the Python and Java traces around it; the error itself if there is none.

    Tasks and planning run in processes of Spark's, which hand back no more than text.
    """
    found = _OWN_ERROR.findall(str(error))
    if not found:
        return error
    kind, words = found[-1]
    return UserError(words) if kind == UserError.__name__ else TaskError(words)
