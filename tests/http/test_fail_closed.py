"""Access fails closed: a server whose keys were lost refuses all callers."""

from __future__ import annotations

from pathlib import Path

import httpx

import laurels
from laurels.server.auth.at_rest import keys_of
from laurels.stores.local.files.key_file import KEYS_FILE
from laurels.stores.local.recovery.backup import back_up, restore
from tests.redis.servers import Server, until
from tests.serving import JSON, Served

from .process import Process

ADMIN = "an admin key of 28 characters"


def bearer(key: str) -> dict[str, str]:
    return {**JSON, "authorization": f"Bearer {key}"}


def no_warning(what: str) -> None:
    raise AssertionError(what)


def make_key(folder: Path | str, name: str = "boss", scope: str = "admin") -> str:
    """Create a key directly in the store, without the server."""
    with keys_of(str(folder), no_warning) as keys:
        return keys.create(name, scope)[1]


def statuses(url: str, key: str | None = None) -> list[int]:
    """Return the statuses of a read, a write and an administrative request."""
    headers = JSON if key is None else bearer(key)
    event = {"member": "a", "value": 1}
    return [
        httpx.get(f"{url}/v1/boards", headers=headers).status_code,
        httpx.post(f"{url}/v1/boards/b/scores", json=event, headers=headers).status_code,
        httpx.post(f"{url}/v1/rebuild", headers=headers).status_code,
        httpx.post(f"{url}/v1/keys", json={"name": "mine"}, headers=headers).status_code,
    ]


def test_deleting_the_last_key_does_not_open_the_server(tmp_path: Path) -> None:
    key = make_key(tmp_path)
    with Served(tmp_path, open=False) as server:
        gone = httpx.delete(f"{server.url}/v1/keys/boss", headers=bearer(key))
        assert gone.status_code == 204
        assert statuses(server.url) == [401] * 4
        assert statuses(server.url, key) == [401] * 4
    with Served(tmp_path, open=False) as again:
        assert statuses(again.url) == [401] * 4
    key = make_key(tmp_path, "next")
    with Served(tmp_path, open=False) as server:
        assert httpx.get(f"{server.url}/v1/boards", headers=bearer(key)).status_code == 200


def test_a_store_without_its_key_files_refuses_all_callers(tmp_path: Path) -> None:
    make_key(tmp_path)
    for file in tmp_path.glob(f"{KEYS_FILE}*"):
        file.unlink()
    with Served(tmp_path, open=False) as server:
        assert statuses(server.url) == [401] * 4


def test_a_restored_backup_needs_keys_and_has_none(tmp_path: Path) -> None:
    key = make_key(tmp_path / "boards")
    back_up(tmp_path / "boards", tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "again")
    assert not [*(tmp_path / "again").glob("keys*")]
    with Served(tmp_path / "again", open=False) as server:
        assert statuses(server.url) == statuses(server.url, key) == [401] * 4


def test_a_folder_of_an_older_version_stays_closed(tmp_path: Path) -> None:
    (tmp_path / KEYS_FILE).write_text('{"format": 1, "secret": "00", "keys": []}')
    with Served(tmp_path, open=False) as server:
        assert statuses(server.url) == [401] * 4


def test_the_first_key_is_made_once(tmp_path: Path) -> None:
    with keys_of(str(tmp_path), no_warning) as keys:
        secret = keys.ensure_first_key()
        assert secret is not None
        assert keys.caller(secret).is_unlimited
        assert keys.ensure_first_key() is None
        keys.revoke("admin")
    with keys_of(str(tmp_path), no_warning) as keys:
        assert keys.ensure_first_key() is None, "a first key must not be created again"


def test_a_flushed_index_server_refuses_all_callers() -> None:
    with Server() as redis:
        laurels.open(redis.url).close()
        key = make_key(redis.url)
        with Process(redis.url) as server:
            assert httpx.get(f"{server.url}/v1/boards", headers=bearer(key)).status_code == 200
            redis.call("FLUSHALL")
            until(lambda: statuses(server.url, key)[0] == 401, "the keys are gone")
            assert statuses(server.url) == [401] * 4


def test_an_empty_index_server_needs_keys_from_the_start() -> None:
    with Server() as redis, Process(redis.url, LAURELS_ADMIN_KEY=ADMIN) as server:
        assert statuses(server.url) == [401] * 4
        assert statuses(server.url, ADMIN)[0] == 200
        redis.call("FLUSHALL")
        assert statuses(server.url) == [401] * 4
        assert statuses(server.url, ADMIN)[0] == 200
