"""Expressions that select topics, in RE2's syntax and matched in linear time.

Clients choose the expression and one thread serves all clients, so an expression must not be able
to backtrack for hours. Kafka's counterpart: RE2/J, in `TopicRegexResolver`.
"""


class RegexError(ValueError):
    """The expression is invalid; the text says why."""


class TopicRegex:
    """A compiled expression; raises `RegexError`."""

    def __init__(self, text: str) -> None:
        import re2  # slow to import, and only needed for subscriptions by expression

        options = re2.Options()
        options.log_errors = False  # RE2 would write them to the broker's stderr
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            (reason,) = error.args
            raise RegexError(reason.decode(errors="replace")) from error
        except UnicodeEncodeError as error:
            raise RegexError("not valid Unicode text") from error

    def matches(self, name: str) -> bool:
        """Whether the full name matches."""
        return self._compiled.fullmatch(name) is not None
