"""An admin client of a directory that no broker serves, by its files."""

import os

import ottla
from ottla.client.connecting.read_only import open_to_read
from ottla.diagnosis.losses import OnLost, refuse_loss


def reading(path: str | os.PathLike[str], on_lost: OnLost = refuse_loss) -> ottla.Admin:
    """Nothing is to be closed."""
    return ottla.Admin(open_to_read([os.fspath(path)], on_lost))
