"""What catalogs refuse, lose, or never answer."""

import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.exceptions import CommitFailedException

from ottla.base.errors import UserError
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.tables.formats import rest_catalog
from ottla.tables.table import Table
from tests.unit.tables.test_iceberg import (
    OFFSETS,
    TABLE,
    append,
    by_pyiceberg,
    catalog,
    load_new,
    offsets,
    place,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]


def test_a_table_that_another_program_has_dropped_or_renamed_is_reported_with_its_place(
    tmp_path: Path,
) -> None:
    load_new(tmp_path)
    catalog(tmp_path).rename_table("shop.orders", "shop.other")
    with pytest.raises(UserError, match=f"no such table any more, but {Table(TABLE).path} has"):
        load_new(tmp_path)
    catalog(tmp_path).rename_table("shop.other", "shop.orders")
    load_new(tmp_path)
    assert offsets(by_pyiceberg(tmp_path)) == OFFSETS


def test_a_commit_that_a_catalog_refuses_for_something_else_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_new(tmp_path)
    append(tmp_path, 5)
    job = load_job(place(tmp_path), LocalEngine())
    log: Any = job.table.log
    real, tries = log._try, []

    def refused(*arguments: Any) -> Any:
        tries.append(arguments)
        if len(tries) == 1:
            raise CommitFailedException
        return real(*arguments)

    monkeypatch.setattr(log, "_try", refused)
    assert load(job).row_count == 5
    assert offsets(by_pyiceberg(tmp_path)) == OFFSETS[:15]


def test_a_server_that_never_answers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_catalog, "ANSWER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
        with pytest.raises(UserError, match=r"Read timed out"):
            Table(TABLE)
