"""Errors of the registry, with the codes of Confluent's API."""

from collections.abc import Iterable

from ottla.base.errors import OttlaError


class RegistryError(OttlaError):
    """`code` is the API's own; its first three digits are the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return int(str(self.code)[:3])


def no_subject(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def no_version(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def no_schema(which: object = None) -> RegistryError:
    return RegistryError(
        40403, "Schema not found" if which is None else f"Schema {which} not found"
    )


def invalid_schema(words: str) -> RegistryError:
    return RegistryError(42201, f"Invalid schema: {words}")


def invalid_version(text: str) -> RegistryError:
    return RegistryError(
        42202,
        f"The specified version '{text}' is not a valid version id. Allowed values are between "
        f'[1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> RegistryError:
    return RegistryError(
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode(modes: Iterable[str]) -> RegistryError:
    return RegistryError(42204, f"Invalid mode. Valid values are {', '.join(modes)}")


def not_permitted(words: str) -> RegistryError:
    return RegistryError(42205, words)


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject {subject!r} is not a valid subject.")


def too_large(words: str) -> RegistryError:
    return RegistryError(42209, f"Schema is too large: {words}")
