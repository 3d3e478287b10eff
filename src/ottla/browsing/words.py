"""The bytes that every match of a condition must hold."""

Words = tuple[tuple[bytes, ...], ...]
"""Of each group a batch with a match holds at least one. No group: any batch may have a match."""

NO_WORDS: Words = ()

JSON_ENCODINGS = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
"""Those of RFC 4627 besides UTF-8, which `json.loads` still reads."""


def exactly(text: str) -> Words:
    """For a key, a value or a header that holds these characters as they are, in UTF-8."""
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
    """Where one of several conditions is enough: a group of each."""
    if not all(several):
        return NO_WORDS
    return (tuple(word for words in several for word in words[0]),)
