r"""Maps the subject of a client's certificate to the name of its user.

The setting `ssl.principal.mapping.rules` has rules `RULE:pattern/replacement/[LU]` or `DEFAULT`,
separated by commas; the first whose pattern matches the whole subject applies. A slash in a pattern
or a replacement is written `\/`. RE2 matches the patterns in time linear in the length of the
subject, because the client chooses the subject and the server's loop waits. Python's `re` matches
patterns with lookaround or backreferences, which RE2 does not have. Both differ from Java's regular
expressions only in corner cases. Kafka's counterpart: `SslPrincipalMapper`.
"""

import re
from typing import Any

from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass

_TEXT = r"(?:\\.|[^\\/])*"
_RULE = lazy_pattern(rf"\s*(?:(DEFAULT)|RULE:({_TEXT})/({_TEXT})/([LU]?))\s*(?:,|$)")
_REFERENCE = lazy_pattern(r"\\(.)|\$(\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """`pattern` is `None` for `DEFAULT`; `case` is `L`, `U` or empty."""

    pattern: Any
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """Returns the user's name, or `None` if the rule does not match."""
        if self.pattern is None:
            return subject
        found = self.pattern.fullmatch(subject)
        if found is None:
            return None
        name = _REFERENCE.sub(lambda one: _referred(one, found), self.replacement)
        return {"L": name.lower, "U": name.upper}.get(self.case, lambda: name)()


def _referred(reference: re.Match[str], found: re.Match[str]) -> str:
    """Expands escapes and group references; a reference to a missing group is the character
    itself.
    """
    escaped, digits = reference.groups()
    if escaped is not None:
        return str(escaped)
    number = int(digits)
    return (found[number] or "") if number <= len(found.groups()) else reference[0]


@dataclass(frozen=True, slots=True)
class PrincipalMapping:
    rules: tuple[Rule, ...]

    @staticmethod
    def parse(text: str) -> "PrincipalMapping":
        """Raises `ValueError` with the part that is not a rule."""
        rules: list[Rule] = []
        text = text.strip() or "DEFAULT"
        position = 0
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None:
                raise ValueError(
                    f"{text[position:].strip()!r} must be DEFAULT or RULE:pattern/replacement/[LU]"
                )
            default, pattern, replacement, case = found.groups()
            rules.append(Rule(None) if default else _rule(pattern, replacement, case))
            position = found.end()
        return PrincipalMapping(tuple(rules))

    def user_of(self, subject: str) -> str | None:
        """Returns the name of the user, or `None` if no rule matches."""
        for rule in self.rules:
            name = rule.apply(subject)
            if name is not None:
                return name
        return None


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    import re2  # start-up counts

    try:
        re.compile(pattern)  # whose complaints say where
    except re.error as error:
        raise ValueError(f"RULE:{pattern}: {error}") from error
    options = re2.Options()
    options.log_errors = False
    try:
        return Rule(re2.compile(pattern, options), replacement, case)
    except re2.error:
        return Rule(re.compile(pattern), replacement, case)
