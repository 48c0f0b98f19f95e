"""`key` creates, lists and revokes keys, in a folder that no process uses and on a running
server."""

from __future__ import annotations

import pytest

import laurels
from laurels.errors import LaurelsError
from tests.serving import ADMIN_KEY, Served

from .running import Shell


def keys_of(shell: Shell, *options: str) -> list[str]:
    return [key["name"] for key in shell.json("key", "list", *options)]


def test_keys_of_a_folder_that_is_not_served_can_be_managed(shell: Shell) -> None:
    made = shell.json("key", "create", "game", "--scope", "write", "--board", "room-*")
    assert (made["name"], made["scope"], made["boards"]) == ("game", "write", ["room-*"])
    assert made["key"].startswith("lk_")
    key = shell.ok("key", "create", "page", "--rate", "50").out.strip()
    assert key.startswith("lk_")
    assert keys_of(shell) == ["game", "page"]
    listed = shell.ok("key", "list").out
    assert "room-*" in listed
    assert key not in listed
    shell.ok("key", "revoke", "game")
    assert keys_of(shell) == ["page"]
    assert shell.json("key", "revoke", "page") == {"revoked": "page"}


def test_a_key_of_the_folder_opens_the_server(shell: Shell) -> None:
    key = shell.ok("key", "create", "boss", "--scope", "admin").out.strip()
    with Served(shell.directory / "boards", open=False) as served:
        with laurels.open(served.url.replace("//", f"//{key}@")) as lb:
            lb.create(laurels.Board("b"))
        with laurels.open(served.url) as lb, pytest.raises(LaurelsError) as error:
            lb.boards()
        assert error.value.code == "unauthorized"


def test_keys_of_a_running_server_can_be_managed(shell: Shell) -> None:
    with Served(shell.directory / "boards", admin_key=ADMIN_KEY) as served:
        at = ("--at", served.url.replace("//", f"//{ADMIN_KEY}@"))
        shell.ok("key", "create", "game", "--scope", "write", *at)
        assert keys_of(shell, *at) == ["game"]
        shell.ok("key", "revoke", "game", *at)
        assert keys_of(shell, *at) == []
        assert shell("key", "revoke", "game", *at).code == 2


def test_keys_of_a_served_folder_are_left_to_its_server(shell: Shell) -> None:
    with Served(shell.directory / "boards") as served:
        ran = shell("key", "create", "game")
        assert ran.code == 2
        assert f"use --at {served.url}" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("key", "create", "no spaces"), "invalid_key"),
        (("key", "create", "x", "--scope", "all"), "usage"),
        (("key", "create", "x", "--rate", "-1"), "invalid_key"),
        (("key", "revoke", "nobody"), "unknown_key"),
        (("key", "list", "--at", "memory:"), "nothing_to_back_up"),
    ],
)
def test_invalid_arguments_are_refused_with_a_code(
    shell: Shell, arguments: tuple[str, ...], code: str
) -> None:
    ran = shell(*arguments)
    assert ran.code == 2
    assert ran.err.startswith(f"error [{code}]: ")


def test_a_key_name_can_be_used_only_once(shell: Shell) -> None:
    shell.ok("key", "create", "game")
    assert "key_exists" in shell("key", "create", "game").err


def test_a_key_is_rotated_and_expires(shell: Shell) -> None:
    made = shell.json("key", "create", "game", "--expires-in", "90d")
    assert made["expires_ms"] - made["created_ms"] == 90 * 86_400_000
    rotated = shell.json("key", "rotate", "game", "--grace", "10m")
    assert rotated["key"] != made["key"]
    assert rotated["expires_ms"] == made["expires_ms"]
    assert keys_of(shell) == ["game"]
    assert shell.ok("key", "rotate", "--tokens").out.strip() == "rotated tokens"
    assert "usage" in shell("key", "rotate").err
