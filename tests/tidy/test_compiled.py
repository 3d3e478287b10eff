"""What setup.py has compiled, of which no edit and no test would tell that it cannot be."""

import ast
import builtins
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "ottla"

CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
HEIR = re.compile(r"^ *class \w+\(", re.MULTILINE)
WORD = re.compile(r"\w+")


def compiled_modules() -> set[Path]:
    """Of the broker, as setup.py names them; it is read, since to import it would build."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BROKER":
            rooms: dict[str, str] = ast.literal_eval(node.value)
            return {PACKAGE / room / f"{one}.py" for room in rooms for one in rooms[room].split()}
    raise AssertionError("setup.py names nothing")


def imported_names(tree: ast.Module) -> dict[str, Path]:
    """Where the names come from that a module imports from others of the package."""
    return {
        alias.asname or alias.name: ROOT / "src" / (node.module.replace(".", "/") + ".py")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def inheritance(path: Path) -> list[tuple[str, Path]]:
    """The classes of a module, each with the module of a class that it inherits from."""
    tree = ast.parse(path.read_text())
    origins = imported_names(tree)
    found = []
    for node in ast.walk(tree):
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            if name in origins:
                found.append((node.name, origins[name]))
    return found


def may_inherit(text: str, names: set[str]) -> bool:
    """Whether a class has a base, and one of the names is said: the rest need not be parsed."""
    return HEIR.search(text) is not None and not names.isdisjoint(WORD.findall(text))


def test_every_module_that_is_compiled_is_there() -> None:
    assert [one for one in compiled_modules() if not one.exists()] == []


@pytest.mark.slow
def test_what_inherits_from_a_compiled_class_is_compiled_too() -> None:
    compiled = compiled_modules()
    names = {name for path in compiled for name in CLASS.findall(path.read_text())}
    assert [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        if path not in compiled and may_inherit(path.read_text(), names)
        for name, origin in inheritance(path)
        if origin in compiled
    ] == []


def test_classes_that_inherit_from_others_are_found() -> None:
    found = inheritance(PACKAGE / "storage" / "compaction" / "output.py")
    assert found == [("CleanedSegment", PACKAGE / "storage" / "segment" / "segment.py")]


def test_an_extension_beside_its_source_is_not_older() -> None:
    """Otherwise it, and not the source, is what runs: `pip install -e .` compiles it again."""
    assert [
        source.name
        for built in PACKAGE.rglob("*.so")
        if (source := built.with_name(f"{built.name.partition('.')[0]}.py")).exists()
        and built.stat().st_mtime < source.stat().st_mtime
    ] == []


@pytest.mark.slow
def test_fields_of_compiled_dataclasses_have_types_that_their_module_knows() -> None:
    """mypyc knows these builtins by itself; the rest it looks for in the module, at import."""
    known = {"int", "float", "bool", "str", "bytes", "list", "dict", "set", "tuple", "object"}
    unknown = []
    for path in compiled_modules():
        tree = ast.parse(path.read_text())
        imported = imported_names(tree)
        for one in ast.walk(tree):
            if not isinstance(one, ast.ClassDef) or "dataclass" not in ast.dump(
                ast.List(elts=one.decorator_list)
            ):
                continue
            unknown += [
                f"{path.name}: {one.name}.{ast.unparse(field.target)}"
                for field in one.body
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.annotation, ast.Name)
                and hasattr(builtins, field.annotation.id)
                and field.annotation.id not in known | imported.keys()
            ]
    assert unknown == []


def caught_names(function: ast.AST) -> dict[str, set[str]]:
    """The names of a function's except clauses, with what each of them is."""
    found: dict[str, set[str]] = {}
    for one in ast.walk(function):
        if isinstance(one, ast.ExceptHandler) and one.name and one.type:
            found.setdefault(one.name, set()).add(ast.unparse(one.type))
    return found


def test_a_compiled_error_has_its_name_for_itself_where_it_is_caught() -> None:
    """Compiled, all except clauses with a name share a variable of the first one's class."""
    compiled = compiled_modules()
    shared = []
    for path in compiled:
        tree = ast.parse(path.read_text())
        origins = imported_names(tree) | dict.fromkeys(CLASS.findall(path.read_text()), path)
        shared += [
            f"{path.relative_to(PACKAGE)}: {function.name}: {name}"
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef)
            for name, kinds in caught_names(function).items()
            if len(kinds) > 1 and any(origins.get(one) in compiled for one in kinds)
        ]
    assert shared == []
