"""How the `ottla log` commands write times, offsets and bytes for a person."""

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def offsets_text(first: int | None, last: int) -> str:
    if first == last:
        return str(last)
    return f"{'?' if first is None else first}–{last}"


def counted(count: object, noun: str) -> str:
    """As in 1 batch, 2 batches."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}{'es' if noun.endswith('ch') else 's'}"


def text_of_bytes(value: bytes | None) -> str:
    """Quoted text, with escapes for what is not printable or not UTF-8; `null` for none.

    As in Python, quotes inside are left alone where the other kind can stand around them.
    """
    if value is None:
        return "null"
    text = value.decode("utf-8", "surrogateescape")
    quote = "'" if '"' in text and "'" not in text else '"'
    return quote + "".join(map(_escape, text)).replace(quote, f"\\{quote}") + quote


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # A byte that is not UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
