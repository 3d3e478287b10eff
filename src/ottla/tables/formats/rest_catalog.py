"""A REST catalog that does not wait for ever for a server: pyiceberg's own has no timeouts, so that
a load that follows would stand still without a word.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from requests import Session

CONNECT_S = 10.0
ANSWER_S = 120.0
"""The seconds in which a server must send something. A commit may take long; one that was carried
out in spite of a timeout is found when the table is loaded again.
"""


class ImpatientRestCatalog(RestCatalog):
    def _create_session(self) -> Session:
        session = super()._create_session()
        # Sessions of requests have no setting for it.
        given: Any = session
        given.request = partial(session.request, timeout=(CONNECT_S, ANSWER_S))
        return session


def load_configured(name: str, configured: Mapping[str, Any]) -> Catalog:
    """As `pyiceberg.catalog.load_catalog`."""
    return (ImpatientRestCatalog if _is_rest(configured) else load_catalog)(name, **configured)


def _is_rest(configured: Mapping[str, Any]) -> bool:
    """Whether pyiceberg would open a REST catalog of its own with this configuration."""
    if configured.get("py-catalog-impl"):
        return False
    kind, uri = configured.get("type"), configured.get("uri")
    return str(kind).lower() == "rest" if kind else str(uri).startswith("http")
