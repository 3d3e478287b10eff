"""Writes the documents that are made from the code: `make docs`. `tests/docs` holds them to it."""

from pathlib import Path

from ottla.protocol.messages import DECLARED, request_class
from ottla.server.apis import APIS

DOCS = Path(__file__).resolve().parent
COMPATIBILITY = DOCS / "compatibility.md"
BEGIN = "<!-- made by `make docs` from src/ottla/server/apis.py -->"
END = "<!-- end -->"


def api_table() -> str:
    """One row per API that the protocol room declares: what is answered, and what is known."""
    rows = ["| key | API | answered | declared |", "|---|---|---|---|"]
    for key in sorted(DECLARED):
        known = request_class(key).VERSIONS
        api = APIS.get(key)
        answered = f"{api.oldest}-{api.newest}" if api else "-"
        if api and not api.is_told:
            answered += ", not told"
        rows.append(f"| {int(key)} | {key.name} | {answered} | {known.first}-{known.last} |")
    return "\n".join(rows)


def with_table(text: str, table: str) -> str:
    """A document with what stands between the marks replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    COMPATIBILITY.write_text(with_table(COMPATIBILITY.read_text(), api_table()))


if __name__ == "__main__":
    main()
