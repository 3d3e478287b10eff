"""Jackson under the name by which Iceberg's runtime for Spark asks for it.

The wheel that carries the runtime leaves its copy of Jackson out, and Spark has one under its own
name. So that one's classes are renamed, as the runtime's builders rename theirs.
"""

import struct
import zipfile
from pathlib import Path

OWN, SHADED = b"com/fasterxml/jackson", b"org/apache/iceberg/shaded/com/fasterxml/jackson"
TEXT, PAIRS = 1, (5, 6)
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4}
"""Bytes of a constant of a class, after its tag; of long ones, which count twice, there are two."""


def relocate(jars: Path, target: Path) -> None:
    """Writes a jar of the renamed classes of those in a folder."""
    with zipfile.ZipFile(target, "w") as made:
        for name in ("annotations", "core", "databind"):
            (jar,) = jars.glob(f"jackson-{name}-2*.jar")
            with zipfile.ZipFile(jar) as opened:
                for one in opened.namelist():
                    if one.startswith("com/fasterxml/") and one.endswith(".class"):
                        made.writestr(f"{SHADED.decode()[:26]}{one}", _renamed(opened.read(one)))


def _renamed(content: bytes) -> bytes:
    """A class whose constants have the other name."""
    (count,) = struct.unpack_from(">H", content, 8)
    made, position, number = bytearray(content[:10]), 10, 1
    while number < count:
        tag = content[position]
        if tag == TEXT:
            (size,) = struct.unpack_from(">H", content, position + 1)
            end = position + 3 + size
            text = content[position + 3 : end].replace(OWN, SHADED)
            text = text.replace(OWN.replace(b"/", b"."), SHADED.replace(b"/", b"."))
            made += struct.pack(">BH", TEXT, len(text)) + text
        else:
            end = position + 1 + SIZES[tag]
            made += content[position:end]
        position, number = end, number + (2 if tag in PAIRS else 1)
    return bytes(made + content[position:])
