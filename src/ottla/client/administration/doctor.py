"""Checks a broker and its log directories, as far as there are such, and they are here."""

from collections.abc import Callable, Iterable, Iterator

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UnreachableError
from ottla.base.files import DiskSpace
from ottla.client.administration.admin import Admin
from ottla.client.administration.cluster_status import cluster_status, complaints_of_cluster
from ottla.client.administration.log_directories import LogDirectoryDescription
from ottla.config.setting import with_values
from ottla.config.topic import TopicConfig
from ottla.diagnosis.complaints import Complaint, Remedy
from ottla.diagnosis.directories import (
    Directories,
    are_local,
    described_config,
    read_directories,
    with_broker,
)
from ottla.diagnosis.doctor import (
    check_cleaner_on,
    check_directories,
    check_settings,
    check_space,
    deep_complaints,
)


def local_directories(
    admin: Admin,
    topic: str | None = None,
    *,
    given: dict[str, str] | None = None,
    on_unreachable: Callable[[UnreachableError], object] = lambda _: None,
) -> Directories | None:
    """Returns the brokers' online directories, or those with a topic, with its settings.
    `on_unreachable` is called for a broker that does not answer, whose directories are left out.

    Returns `None` if they are not on this machine, not readable, or not shown to this user. Raises
    `UnknownNameError` for a topic that does not exist.
    """
    found = [
        one
        for one in admin.log_directories(on_unreachable=on_unreachable)
        if topic is None or any(name == topic for name, _ in one.sizes)
    ]
    if not found and topic is not None and topic not in admin.list_topics(internal=True):
        raise admin.unknown_topic(topic)
    online = [one.path for one in found if one.error is ErrorCode.NONE]
    if not online or not are_local(online, admin.cluster_id()):
        return None
    directories = read_directories(online, given=given)
    return with_broker(directories, admin.topic_settings, admin.broker_settings())


def complaints(
    admin: Admin | None, files: Directories | None, now_ms: int, *, deep: bool = False
) -> Iterator[Complaint]:
    """All problems of a broker, if one runs, and of its files, if they are on this machine. `deep`
    reads every batch.
    """
    described = [] if admin is None else _directories_of(admin)
    if admin is not None:
        yield from complaints_of_cluster(cluster_status(admin, needs_controller=False))
    for one in described:
        yield from _check_described(one)
    if files is not None:
        yield from check_directories(files, now_ms)
        if deep:
            yield from deep_complaints(tuple(one.path for one in files.opened))
    elif admin is not None:
        yield from _check_from_afar(admin, described)


def _directories_of(admin: Admin) -> list[LogDirectoryDescription]:
    """Those of the brokers that answer: what is said of the cluster names the others."""
    return admin.log_directories(on_unreachable=lambda _: None)


def _check_from_afar(
    admin: Admin, described: Iterable[LogDirectoryDescription]
) -> Iterator[Complaint]:
    try:
        broker = described_config(admin.broker_settings())
    except UnreachableError:
        return  # what is said of the cluster names it
    online = [one for one in described if one.error is ErrorCode.NONE]
    for topic in sorted({name for one in online for name, _ in one.sizes}):
        config = with_values(TopicConfig(), admin.topic_settings(topic))
        yield from check_settings(topic, config, broker)
        yield from check_cleaner_on(topic, config, broker)
    yield Complaint(
        kind="from_afar",
        where=admin.address,
        what="its directories are not on this machine, or not readable: no file was checked",
        remedy=Remedy.LOOK_THERE,
        is_note=True,
    )


def _check_described(described: LogDirectoryDescription) -> Iterator[Complaint]:
    if described.error is not ErrorCode.NONE:
        yield Complaint(
            kind="offline_directory",
            where=described.path,
            what=f"is offline ({described.error.name}): its partitions are not served",
            remedy=Remedy.REPLACE_DISK,
        )
    elif described.total_size > 0:
        yield from check_space(
            described.path, DiskSpace(total=described.total_size, usable=described.usable_size)
        )
