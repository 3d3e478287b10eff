"""The page of tiers has every setting of a tier's store."""

from pathlib import Path

from ottla.config.setting import settings_of
from ottla.storage.remote.aiven_settings import (
    WITHOUT_EFFECT,
    AivenConfig,
    AzureConfig,
    DirectoryConfig,
    GcsConfig,
    S3Config,
)
from ottla.storage.remote.settings import AIVEN_CLASS, LOCAL_CLASS, LocalTieredStorageConfig

PAGE = (Path(__file__).parents[2] / "docs" / "tiers.md").read_text()


def test_every_setting_of_a_tier_is_on_its_page() -> None:
    groups = (
        LocalTieredStorageConfig, AivenConfig, DirectoryConfig, S3Config, GcsConfig, AzureConfig,
    )  # fmt: skip
    names = [name for group in groups for name in settings_of(group)]
    assert [name for name in (*names, *WITHOUT_EFFECT) if f"`{name}`" not in PAGE] == []
    assert f"`{AIVEN_CLASS}`" in PAGE
    assert f"`{LOCAL_CLASS}`" in PAGE
