"""What the libraries of object stores say, as one line for a person."""

from ottla.base.patterns import lazy_pattern
from ottla.objects.addresses import PROVIDERS
from ottla.objects.store import StoreError

_WITHOUT_CREDENTIALS = lazy_pattern(r"credentials|token request|Account must be specified")
_REFUSED = lazy_pattern(r"\b40[13] |privileges|AccessDenied")
_SILENT = lazy_pattern(r"error sending request|timed out|error decoding response|\b50\d ")
_WITHOUT_PLACE = lazy_pattern(r"NoSuchBucket|ContainerNotFound")
_ANSWER = lazy_pattern(r"(?s)<\?xml.*?<Code>(.*?)</Code>.*")
"""The answer of a store, and its code."""

_COLOR = lazy_pattern(r"\x1b\[[0-9;]*m")


def refusal(address: str, error: Exception) -> StoreError:
    """What a store's library says, in one line, with the fix if it is known."""
    text, scheme = _one_line(error), address.partition("://")[0]
    is_permanent = any(one.search(text) for one in (_WITHOUT_CREDENTIALS, _WITHOUT_PLACE, _REFUSED))
    if scheme in PROVIDERS and (fix := _fix(scheme, text)):
        text = f"{text.rstrip('.')}; {fix}"
    return StoreError(f"{address}: {text}", is_retriable=not is_permanent)


def _fix(scheme: str, text: str) -> str | None:
    provider = PROVIDERS[scheme]
    if _WITHOUT_CREDENTIALS.search(text):
        return f"set {provider.credentials}"
    if _WITHOUT_PLACE.search(text):
        return f"check the name of the {provider.place.lower()}"
    if _REFUSED.search(text):
        return f"let these credentials read and list it, or set others: {provider.credentials}"
    if _SILENT.search(text):
        return f"try again when the store answers; {provider.endpoint} says where it is"
    return None


def _one_line(error: Exception) -> str:
    """The message of a library in Rust, on several lines and colored, as one line."""
    text = str(error).partition("\n\nDebug source:")[0]
    if found := _ANSWER.search(text):
        text = f"{text[: found.start()]}{found[1]}"
    lines = _COLOR.sub("", text).replace("\u21b3", "").splitlines()
    return ": ".join(line.strip() for line in lines if line.strip())
