"""The command that installs an extra suits how this copy was installed."""

import json
from pathlib import Path

import pytest

from ottla.base.extras import install_command, install_from

REQUIREMENTS = [
    "click>=8.1",
    'numpy>=2; extra == "arrow"',
    "pyarrow>=15; extra == 'arrow'",
    "ottla[arrow]; extra == 'sql'",
    "duckdb>=1.2; extra == 'sql'",
]


def from_folder(place: Path, **more: object) -> str:
    return json.dumps({"url": place.as_uri(), **more})


def test_a_clone_is_installed_from_once_more(tmp_path: Path) -> None:
    found = install_from(from_folder(tmp_path, dir_info={}), "sql", [], str(tmp_path / "none"))
    assert found == f"pip install '{tmp_path}[sql]'"


def test_what_runs_from_its_sources_still_does(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    assert install_from(None, "sql", [], str(tmp_path)) == f"pip install -e '{tmp_path}[sql]'"


def test_a_wheel_is_named_with_its_path(tmp_path: Path) -> None:
    wheel = tmp_path / "a folder" / "ottla-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    found = install_from(from_folder(wheel, archive_info={}), "sql", [], str(tmp_path / "none"))
    assert found == f"pip install '{wheel}[sql]'"


def test_packages_are_named_where_the_clone_or_the_wheel_is_gone(tmp_path: Path) -> None:
    gone = from_folder(tmp_path / "gone.whl", archive_info={})
    found = install_from(gone, "sql", REQUIREMENTS, str(tmp_path / "none"))
    assert found == "pip install 'numpy>=2' 'pyarrow>=15' 'duckdb>=1.2'"


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (
            {"url": "https://host/ottla.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
            "pip install 'ottla[sql] @ git+https://host/ottla.git'",
        ),
        (
            {"url": "https://host/ottla-0.1.0.tar.gz", "archive_info": {}},
            "pip install 'ottla[sql] @ https://host/ottla-0.1.0.tar.gz'",
        ),
        (None, "pip install 'ottla[sql]'"),
    ],
)
def test_an_address_or_an_index_is_named_as_pip_takes_it(
    origin: object, command: str, tmp_path: Path
) -> None:
    text = None if origin is None else json.dumps(origin)
    assert install_from(text, "sql", REQUIREMENTS, str(tmp_path / "none")) == command


def test_this_copy_runs_from_its_sources_or_from_a_wheel() -> None:
    assert install_command("sql").endswith("[sql]'")
