"""The features of a cluster: which updates may be, and what a new cluster has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.resource_kinds import ResourceKind
from ottla.metadata.deciding.features import (
    FeatureDecision,
    FeatureUpdate,
    Quorum,
    UpgradeType,
    check_levels,
    feature_records,
    min_isr_records,
    new_features,
    update_features,
)
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.levels import (
    FEATURE_LEVELS,
    METADATA_LEVELS,
    STREAMS_VERSION,
    SUPPORTED,
    offered,
    unserved_line,
)
from tests.support.kraft_images import a_broker, a_controller, an_image, ranges, then

ELR = "eligible.leader.replicas.version"
QUORUM = Quorum(101, voters=(101,))
UP, DOWN, UNSAFE = UpgradeType


def updated(
    image: MetadataImage, *updates: FeatureUpdate, quorum: Quorum = QUORUM
) -> FeatureDecision:
    return update_features(image, quorum, updates, validate_only=False)


def refusal(image: MetadataImage, *updates: FeatureUpdate, quorum: Quorum = QUORUM) -> str:
    """The reason of the first update, after the words that all reasons begin with."""
    decision = updated(image, *updates, quorum=quorum)
    error = decision.errors[0]
    assert not decision.records
    assert error is not None
    assert error.code is ErrorCode.INVALID_UPDATE_VERSION
    begin = f"Invalid update version {updates[0].level} for feature {updates[0].name}. "
    assert error.message.startswith(begin)
    return error.message.removeprefix(begin)


# The levels


def test_the_levels_of_metadata_version_follow_one_another_without_a_gap() -> None:
    assert [one.level for one in METADATA_LEVELS] == [*range(7, 34)]
    names = [one.name for one in METADATA_LEVELS]
    assert names == sorted(names)
    assert len({*names}) == len(names)


def test_a_new_cluster_has_what_kafkas_of_its_release_has() -> None:
    assert new_features("3.3") == {METADATA_VERSION: 7}
    assert new_features("3.9.1") == {METADATA_VERSION: 21}
    assert new_features("4.0-IV1") == {METADATA_VERSION: 23, "group.version": 1}
    assert new_features("4.0") == {
        METADATA_VERSION: 25, "group.version": 1, "transaction.version": 2,
    }  # fmt: skip
    assert new_features("4.1")[ELR] == 1
    assert (new_features("4.2")["share.version"], new_features("4.4-IV0")["share.version"]) == (
        1,
        2,
    )


def test_a_new_cluster_of_no_release_has_the_newest_levels_that_are_supported() -> None:
    levels = new_features()
    assert levels[METADATA_VERSION] == SUPPORTED[METADATA_VERSION][1]
    check_levels(an_image().__class__(features=levels))
    assert "kraft.version" not in levels


@pytest.mark.parametrize("release", ["5.0", "3.2", "3.9-IV7", "", "3", "x"])
def test_a_release_that_there_is_not_is_refused_with_those_that_there_are(release: str) -> None:
    with pytest.raises(UserError, match=r"name one from 3.3-IV3 to 4.4-IV2"):
        new_features(release)


def test_the_first_record_of_a_new_cluster_is_that_of_metadata_version() -> None:
    records = feature_records(new_features("4.0"))
    assert then(MetadataImage(), records).features == new_features("4.0")
    assert next(record for record, _ in records) == feature_records({METADATA_VERSION: 25})[0][0]


# Updates


def test_a_level_is_raised_when_all_nodes_know_it() -> None:
    image = an_image(20, {1: a_broker()})
    decision = updated(image, FeatureUpdate(METADATA_VERSION, 21))
    assert [*decision.errors] == [None]
    assert then(image, decision.records).features == {METADATA_VERSION: 21}


def test_an_update_that_is_only_to_be_checked_changes_nothing() -> None:
    asked = [FeatureUpdate(METADATA_VERSION, 21)]
    decision = update_features(an_image(20), QUORUM, asked, validate_only=True)
    assert decision == FeatureDecision([], [None])


def test_the_present_level_needs_no_record() -> None:
    assert updated(an_image(20), FeatureUpdate(METADATA_VERSION, 20)).records == []


def test_a_level_that_this_controller_does_not_know_is_refused() -> None:
    assert refusal(an_image(20), FeatureUpdate(METADATA_VERSION, 99)).startswith(
        "Local controller 101 only supports versions 7-"
    )
    assert refusal(an_image(20), FeatureUpdate(METADATA_VERSION, 6)).startswith(
        "Can't downgrade the version"
    )
    assert refusal(an_image(20), FeatureUpdate("streams.version", 1)) == (
        "Local controller 101 does not support this feature."
    )


def test_a_level_that_a_broker_does_not_know_is_refused_whether_it_is_fenced_or_not() -> None:
    old = a_broker(2, features=ranges({METADATA_VERSION: (1, 20)}), is_fenced=True)
    image = an_image(20, {1: a_broker(), 2: old})
    assert refusal(image, FeatureUpdate(METADATA_VERSION, 21)) == (
        "Broker 2 only supports versions 1-20"
    )
    assert refusal(image, FeatureUpdate("transaction.version", 2)) == (
        "Broker 2 does not support this feature."
    )


def test_a_level_that_a_controller_does_not_know_is_refused_once_controllers_register() -> None:
    old = then(an_image(20), [(a_controller(102, {METADATA_VERSION: (1, 20)}), 0)])
    assert refusal(old, FeatureUpdate(METADATA_VERSION, 21)) == (
        "Controller 102 only supports versions 1-20"
    )
    both = Quorum(101, voters=(101, 103))
    assert refusal(an_image(20), FeatureUpdate(METADATA_VERSION, 21), quorum=both) == (
        "controller 103 has not registered, and may not support this feature"
    )
    assert not any(updated(an_image(14), FeatureUpdate(METADATA_VERSION, 21), quorum=both).errors)


def test_a_level_goes_back_only_on_request_and_only_if_no_records_would_be_lost() -> None:
    image = an_image(28)
    assert refusal(image, FeatureUpdate(METADATA_VERSION, 25, UP)).startswith("Can't downgrade")
    assert refusal(image, FeatureUpdate(METADATA_VERSION, 29, DOWN)) == (
        "Can't downgrade to a newer version."
    )
    back = updated(image, FeatureUpdate(METADATA_VERSION, 25, DOWN))
    assert then(image, back.records).features == {METADATA_VERSION: 25}
    lost = refusal(image, FeatureUpdate(METADATA_VERSION, 21, DOWN))
    assert lost.startswith("Refusing to perform the requested downgrade")
    assert "level 23 (4.0-IV1), eligible leader replicas" in lost
    assert refusal(image, FeatureUpdate(METADATA_VERSION, 21, UNSAFE)) == (
        "Unsafe metadata downgrade is not supported in this version."
    )


def test_a_feature_is_removed_by_level_0() -> None:
    image = an_image(25, group_version=1)
    back = updated(image, FeatureUpdate("group.version", 0, DOWN))
    assert then(image, back.records).features == {METADATA_VERSION: 25}


@pytest.mark.parametrize("update", [
    FeatureUpdate(METADATA_VERSION, 21, 0), FeatureUpdate(METADATA_VERSION, 21, 4),
    FeatureUpdate("group.version", -1, DOWN),
])  # fmt: skip
def test_levels_and_types_that_there_are_not_are_refused(update: FeatureUpdate) -> None:
    assert refusal(an_image(20), update) == (
        "The level and the type of the upgrade must be ones that there are."
    )


def test_all_updates_of_a_request_succeed_or_none() -> None:
    asked = FeatureUpdate(METADATA_VERSION, 99), FeatureUpdate("group.version", 1)
    decision = updated(an_image(20), *asked)
    codes = [one and one.code for one in decision.errors]
    assert codes == [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FEATURE_UPDATE_FAILED]
    assert not decision.records


def test_eligible_leaders_need_a_level_which_the_same_request_may_set() -> None:
    image = an_image(22)
    assert refusal(image, FeatureUpdate(ELR, 1)) == (
        "It depends on metadata.version level 23 (4.0-IV1)."
    )
    both = updated(image, FeatureUpdate(ELR, 1), FeatureUpdate(METADATA_VERSION, 25))
    assert then(image, both.records).features == {METADATA_VERSION: 25, ELR: 1}


def test_with_eligible_leaders_min_insync_replicas_is_a_setting_of_the_cluster() -> None:
    broker = ResourceKind.BROKER
    image = an_image(25).with_configs(broker, {"1": {"min.insync.replicas": "3", "x": "y"}})
    decision = updated(image, FeatureUpdate(ELR, 1), quorum=QUORUM._replace(min_isr=2))
    configs = then(image, decision.records).configs[broker]
    assert configs == {"": {"min.insync.replicas": "2"}, "1": {"x": "y"}}
    known = an_image(25).with_configs(broker, {"": {"min.insync.replicas": "3"}})
    assert not [*min_isr_records(known, 2)]


def test_without_eligible_leaders_none_stay() -> None:
    image = an_image(25, {1: a_broker()}, {0: (1,)}, eligible_leader_replicas_version=1)
    decision = updated(image, FeatureUpdate(ELR, 0, DOWN))
    assert [type(one).__name__ for one, _ in decision.records] == [
        "FeatureLevelRecord", "ClearElrRecord",
    ]  # fmt: skip


def test_kraft_version_is_handed_to_the_quorum_and_never_goes_back() -> None:
    decision = updated(an_image(21), FeatureUpdate("kraft.version", 1))
    assert decision == FeatureDecision([], [None], kraft_version=1)
    dynamic = QUORUM._replace(kraft_version=1)
    same = updated(an_image(21), FeatureUpdate("kraft.version", 1), quorum=dynamic)
    assert same == FeatureDecision([], [None])
    assert refusal(an_image(20), FeatureUpdate("kraft.version", 1)) == (
        "It depends on metadata.version level 21 (3.9-IV0)."
    )
    back = FeatureUpdate("kraft.version", 0, DOWN)
    assert refusal(an_image(21), back, quorum=dynamic) == (
        "Can't downgrade the version of this feature."
    )


names = st.sampled_from([*FEATURE_LEVELS, METADATA_VERSION])
updates = st.lists(
    st.builds(FeatureUpdate, names, st.integers(0, 34), st.sampled_from(UpgradeType)),
    min_size=1, max_size=4, unique_by=lambda one: one.name,
)  # fmt: skip
supported = st.fixed_dictionaries(
    {name: st.tuples(st.just(0), st.integers(1, 34)) for name in SUPPORTED}
)


@given(st.integers(7, 33), updates, supported)
def test_after_an_update_every_node_knows_every_level(
    level: int, asked: list[FeatureUpdate], known: dict[str, tuple[int, int]]
) -> None:
    known[METADATA_VERSION] = (7, max(level, known[METADATA_VERSION][1]))
    image = an_image(level, {1: a_broker(features=ranges(known))})
    decision = updated(image, *asked)
    after = then(image, decision.records)
    if any(decision.errors):
        assert after.features == image.features
        assert all(decision.errors)
        return
    check_levels(after)
    wanted = {one.name: one.level for one in asked}
    assert after.features == {k: v for k, v in (image.features | wanted).items() if v}
    assert all(known[name][0] <= one <= known[name][1] for name, one in after.features.items())


# Clusters of others


def test_a_cluster_whose_level_is_not_known_is_refused_in_a_line() -> None:
    with pytest.raises(UserError) as newer:
        check_levels(MetadataImage(features={METADATA_VERSION: 77}))
    assert str(newer.value).endswith("use a newer version of Ottla")
    with pytest.raises(UserError, match=r"metadata.version 6, and .* knows 7 \(3.3-IV3\)"):
        check_levels(MetadataImage(features={METADATA_VERSION: 6}))
    with pytest.raises(UserError, match=r"later.version at level 1, and .* no level of it"):
        check_levels(an_image(25, later_version=1))
    with pytest.raises(UserError, match=r"streams.version at level 2, and .* levels 0 to 1"):
        check_levels(an_image(25, streams_version=2))
    with pytest.raises(UserError, match=r"group.version at level 2, and .* levels 0 to 1"):
        check_levels(an_image(25, group_version=2))


def test_a_node_stands_aside_of_streams_groups_in_a_cluster_that_has_them_and_brings_none() -> None:
    check_levels(an_image(29, streams_version=1))
    assert offered({}, {METADATA_VERSION: 29, STREAMS_VERSION: 1}) == {STREAMS_VERSION: (0, 1)}
    assert not offered({}, {METADATA_VERSION: 29})
    assert unserved_line({METADATA_VERSION: 29}) is None
    line = unserved_line({STREAMS_VERSION: 1})
    assert line is not None
    assert "serves no streams groups" in line
    assert "does not support this feature" in refusal(
        an_image(29), FeatureUpdate(STREAMS_VERSION, 1)
    )


def test_levels_rise_to_the_newest_and_do_not_fall_behind_records_that_would_be_lost() -> None:
    for level, lost in ((30, 30), (32, 32), (33, 33)):
        raised = updated(an_image(level - 1), FeatureUpdate(METADATA_VERSION, level))
        assert then(an_image(level - 1), raised.records).level == level
        back = FeatureUpdate(METADATA_VERSION, level - 1, UpgradeType.SAFE_DOWNGRADE)
        assert f"that of level {lost} (4." in refusal(an_image(level), back)
    back = FeatureUpdate(METADATA_VERSION, 30, UpgradeType.SAFE_DOWNGRADE)
    assert then(an_image(31), updated(an_image(31), back).records).level == 30
    assert new_features("4.4")[METADATA_VERSION] == new_features()[METADATA_VERSION] == 33
    assert new_features("4.4-IV1")[METADATA_VERSION] == 32
    assert STREAMS_VERSION not in new_features("4.4")
