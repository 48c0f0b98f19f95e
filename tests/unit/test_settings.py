"""Settings come from several sources, in a fixed order of precedence. Errors name the setting that
is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.settings_table import PAGE, page

from laurels.errors.service import InvalidSettings
from laurels.server.process.settings import Settings, admin_key_of, settings_of, table


def test_the_page_of_settings_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python scripts/settings_table.py"


def test_every_setting_says_what_it_does() -> None:
    for setting in table():
        assert setting.does.endswith(".")
        assert setting.default == getattr(Settings(), setting.name)


def test_the_command_line_overrides_the_environment_and_the_environment_the_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "laurels.toml"
    file.write_text('port = 1\nhost = "::1"\nrate = 5\n')
    environment = {"LAURELS_PORT": "2", "LAURELS_HOST": "127.0.0.2", "OTHER": "x"}
    settings = settings_of({"port": 3, "host": None}, environment, file)
    assert (settings.port, settings.host, settings.rate, settings.burst) == (3, "127.0.0.2", 5.0, 0)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("LAURELS_PROT", ", did you mean LAURELS_PORT?"),
        ("LAURELS_MAX_BODYS", ", did you mean LAURELS_MAX_BODY?"),
        ("LAURELS_ADMINKEY", ", did you mean LAURELS_ADMIN_KEY?"),
        ("LAURELS_", ""),
        ("LAURELS_XYZZY_QUUX", ""),
    ],
)
def test_an_unknown_setting_variable_is_refused(name: str, hint: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        settings_of({}, {name: "4"}, None)
    assert f"no setting {name} to take from the environment{hint};" in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        *("LAURELS_KEY", "LAURELS_ADMIN_KEY", "LAURELS_ADMIN_KEY_FILE", "LAURELS_URL"),
        *("LAURELS_FROM", "LAURELS_TO", "LAURELS_WITH", "LAURELS_WEBHOOK_SECRET"),
        *("LAURELS_TEST_ANYTHING", "XLAURELS_PROT", "laurels_prot"),
    ],
)
def test_other_laurels_variables_are_accepted(name: str) -> None:
    assert settings_of({}, {name: "x"}, None) == Settings()


def test_lists_in_the_environment_are_separated_by_commas() -> None:
    settings = settings_of(
        {}, {"LAURELS_CORS_ORIGINS": "https://a.example,https://b.example"}, None
    )
    assert settings.cors_origins == ["https://a.example", "https://b.example"]


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("port = 70000", r"laurels.toml: expected an integer <= 65535 for port, got 70000"),
        ("prot = 1", "prot"),
        ('log_format = "xml"', "log_format is 'xml'"),
        ("port =", "is not TOML"),
        ('cache_deny = ["a b"]', "cache_deny: expected a board pattern"),
    ],
)
def test_the_error_of_a_wrong_setting_names_its_file(
    tmp_path: Path, written: str, named: str
) -> None:
    file = tmp_path / "laurels.toml"
    file.write_text(written)
    with pytest.raises(InvalidSettings, match=named):
        settings_of({}, {}, file)


def test_the_error_of_a_wrong_setting_names_its_variable() -> None:
    with pytest.raises(
        InvalidSettings, match="LAURELS_MAX_BODY: expected an integer for max_body, got 'much'"
    ):
        settings_of({}, {"LAURELS_MAX_BODY": "much"}, None)


def test_the_error_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"none\.toml cannot be read"):
        settings_of({}, {}, tmp_path / "none.toml")


def test_the_admin_key_can_be_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("  a key in a file\n")
    assert admin_key_of({}) is None
    assert admin_key_of({"LAURELS_ADMIN_KEY": "a key"}) == "a key"
    assert admin_key_of({"LAURELS_ADMIN_KEY_FILE": str(file)}) == "a key in a file"
    file.write_text("\n")
    for environment in (
        {"LAURELS_ADMIN_KEY_FILE": str(file)},
        {"LAURELS_ADMIN_KEY_FILE": str(tmp_path / "none")},
        {"LAURELS_ADMIN_KEY_FILE": str(file), "LAURELS_ADMIN_KEY": "a key"},
    ):
        with pytest.raises(InvalidSettings, match="LAURELS_ADMIN_KEY_FILE"):
            admin_key_of(environment)
