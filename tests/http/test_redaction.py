"""Answers of the server name its files without their folders."""

from pathlib import Path

import pytest

from laurels.wire import redaction


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(redaction, "_folders", set())
    path = Path("/srv/the boards of May")
    redaction.hide_folder(path)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{0}/log.db: No space left on device", "log.db: No space left on device"),
        ("{0} is held by process 7", "the boards of May is held by process 7"),
        ("'{0}/keys.json' is damaged", "'keys.json' is damaged"),
        ("/var/lib/other/file.db is no log", "file.db is no log"),
        ("3/4 of a/b", "3/4 of a/b"),
    ],
)
def test_the_folder_of_a_file_is_left_out(folder: Path, text: str, expected: str) -> None:
    assert redaction.without_paths(text.format(folder)) == expected


def test_a_folder_with_a_similar_name_is_not_left_out(folder: Path) -> None:
    assert "Mayor" in redaction.without_paths(f"{folder}or is not there")
