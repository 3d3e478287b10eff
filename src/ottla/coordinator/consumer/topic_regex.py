"""Expressions that name topics, in RE2's syntax and, like there, in linear time.

A client chooses the expression and one thread serves all clients, so an expression that backtracks
for hours must not be possible. Kafka's counterpart: RE2/J, in `TopicRegexResolver`.
"""


class RegexError(ValueError):
    """Not a valid expression; the text says why."""


class TopicRegex:
    """A compiled expression; raises `RegexError`."""

    def __init__(self, text: str) -> None:
        import re2  # only groups that subscribe by expression need it, and start-up counts

        options = re2.Options()
        options.log_errors = False  # on stderr, which is the broker's
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            (reason,) = error.args
            raise RegexError(reason.decode(errors="replace")) from error
        except UnicodeEncodeError as error:
            raise RegexError("not valid Unicode text") from error

    def matches(self, name: str) -> bool:
        """Whether it matches a whole name."""
        return self._compiled.fullmatch(name) is not None
