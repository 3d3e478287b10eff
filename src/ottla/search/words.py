"""The bytes that every match of a condition must contain."""

Words = tuple[tuple[bytes, ...], ...]
"""A batch with a match contains at least one of each group. No group: any batch may match."""

NO_WORDS: Words = ()

JSON_ENCODINGS = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
"""Those of RFC 4627 besides UTF-8, which `json.loads` still reads."""


def exactly(text: str) -> Words:
    """For a key, a value or a header that contains these characters, in UTF-8."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return NO_WORDS
    return ((data,),) if data else NO_WORDS


def in_json(text: str) -> Words:
    """For a JSON string with this content: any character may be escaped, by a backslash."""
    found = exactly(text)
    if not found:
        return NO_WORDS
    return ((*found[0], b"\\", *(text.encode(one) for one in JSON_ENCODINGS)),)


def either(several: list[Words]) -> Words:
    """Combines the words of conditions by `or`: one group with the words of each."""
    if not all(several):
        return NO_WORDS
    return (tuple(word for words in several for word in words[0]),)
