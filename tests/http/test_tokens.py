"""Tokens: the actions that they allow, the subject whose limits apply to their requests, and the
time at which they end."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator

import httpx
import msgspec
import pytest
from jwt import PyJWS

from laurels.errors.service import Forbidden, InvalidKey, Unauthorized
from laurels.server.auth.access import Keys
from laurels.server.auth.submission_rule import submission_rule
from laurels.wire.keys import MemoryKeyStore
from tests.serving import ADMIN_KEY, JSON, Served


class World:
    """Keys, with a clock that the tests set."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.keys = Keys(MemoryKeyStore(), ADMIN_KEY, os.urandom, lambda: self.now_ms)

    def token(self, secret: str = ADMIN_KEY, seconds: int = 60, **fields: object) -> str:
        caller = self.keys.caller(secret)
        return self.keys.token(caller, ["gifts"], seconds, **fields)[0]  # type: ignore[arg-type]

    def refuses(self, secret: str) -> bool:
        try:
            self.keys.caller(secret)
        except Unauthorized:
            return True
        return False


@pytest.fixture
def world() -> World:
    return World()


def test_a_token_ends_with_its_time_and_with_its_key(world: World) -> None:
    _, secret = world.keys.create("game", "read")
    token = world.token(secret)
    caller = world.keys.caller(token)
    assert (caller.level, caller.boards, caller.until_ms) == (1, ("gifts",), 1_060_000)
    world.now_ms += 59_999
    assert not world.refuses(token)
    world.now_ms += 1
    assert world.refuses(token)
    world.now_ms -= 60_000  # the clock is set back
    assert not world.refuses(token)
    world.keys.revoke("game")
    assert world.refuses(token)
    world.keys.create("game", "read")
    assert world.refuses(token), "another key of the same name must not verify it"


def test_a_rotated_key_has_two_secrets_for_a_while(world: World) -> None:
    _, first = world.keys.create("game", "read")
    token = world.token(first)
    _, second = world.keys.rotate("game", 10)
    assert not any(map(world.refuses, (first, second, token)))
    assert world.keys.caller(first).until_ms == 1_010_000
    world.now_ms += 10_000
    assert world.refuses(first)
    assert not world.refuses(second)
    assert not world.refuses(token), "tokens outlive a rotation of their key"
    _, third = world.keys.rotate("game", 0)
    assert world.refuses(second)
    assert not world.refuses(third)


def test_tokens_of_two_signing_secrets_are_accepted(world: World) -> None:
    first = world.token()
    world.keys.rotate_signing()
    second = world.token()
    assert not any(map(world.refuses, (first, second)))
    world.keys.rotate_signing()
    assert world.refuses(first)
    assert not world.refuses(second)


def _forged(token: str, header: dict[str, object], claims: dict[str, object]) -> Iterator[str]:
    """Yield tokens whose content differs from the signed content."""

    def part(document: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()

    encoded, payload, signature = token.removeprefix("lt_").split(".")
    yield f"lt_{part({'alg': 'none', **header})}.{payload}."
    yield f"lt_{part({**header, 'alg': 'none'})}.{part(claims)}.{signature}"
    for field, value in (("boards", ["*"]), ("until_ms", 9e15), ("sub", "x"), ("iss", "x")):
        yield f"lt_{encoded}.{part({**claims, field: value})}.{signature}"
    yield f"lt_{part({**header, 'kid': '../secret'})}.{payload}.{signature}"
    yield f"lt_{part({**header, 'kid': 7})}.{payload}.{signature}"
    yield f"lt_{part({**header, 'kid': ['x']})}.{payload}.{signature}"
    for key in ("", "0", "secret"):
        signed = PyJWS().encode(msgspec.json.encode(claims), key or "0", headers={"kid": key})
        yield f"lt_{signed}"
    yield from (token[:-2], token + ".", "lt_", "lt_a.b", "lt_ä.ö.ü", "lt_..", token.upper())


def test_forged_tokens_are_refused(world: World) -> None:
    token = world.token()
    encoded, payload, _ = token.removeprefix("lt_").split(".")
    header, claims = (
        json.loads(base64.urlsafe_b64decode(each + "==")) for each in (encoded, payload)
    )
    assert "admin" not in json.dumps([header, claims]).lower(), "the token contains a name"
    for forged in _forged(token, header, claims):
        assert world.refuses(forged), forged


def test_no_token_permits_more_than_its_key(world: World) -> None:
    _, read = world.keys.create("read", "read", ["gifts", "room-*"])
    caller = world.keys.caller(read)
    with pytest.raises(Forbidden):
        world.keys.token(caller, ["*"], 60)
    with pytest.raises(Forbidden):
        world.keys.token(caller, ["gifts"], 60, submission=submission_rule("ann", None, 0, 5))
    with pytest.raises(Forbidden, match="token cannot issue"):
        world.keys.token(world.keys.caller(world.token(read)), ["gifts"], 60)
    for seconds in (0, -1, 86_401, True, 1.5, "60", 10**30):
        with pytest.raises(InvalidKey):
            world.keys.token(caller, ["gifts"], seconds)


def test_requests_are_charged_to_the_subject_and_to_the_key(world: World) -> None:
    _, secret = world.keys.create("game", "read", rate=100)
    ann, bob = (world.keys.caller(world.token(secret, subject=each, rate=5)) for each in "ab")
    assert [(bucket.name, bucket.rate) for bucket in ann.buckets] == [("game/a", 5), ("game", 100)]
    assert ann.buckets[0] != bob.buckets[0]
    others = {world.keys.caller(world.token(secret)).identity for _ in range(3)}
    assert len(others) == 3, "tokens without a subject share one identity"


# A token that submits for one member

RULE = {"member": "ann", "labels": {"zone": "de"}, "min": 0, "max": "10.5", "rate": 1_000}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        board = {"columns": [{"name": "s", "scale": 1}], "scopes": [[], ["zone"]]}
        for name in ("gifts", "other"):
            ask(served, "PUT", f"boards/{name}", ADMIN_KEY, board).raise_for_status()
        yield served


def ask(
    server: Served, method: str, path: str, key: str, document: object = None
) -> httpx.Response:
    headers = {**JSON, "authorization": f"Bearer {key}"}
    return httpx.request(method, f"{server.url}/v1/{path}", headers=headers, json=document)


def submitting(server: Served, **fields: object) -> str:
    body = {"boards": ["gifts"], **RULE, **fields}
    answer = ask(server, "POST", "tokens", ADMIN_KEY, body)
    assert answer.status_code == 201, answer.text
    token: str = answer.json()["token"]
    return token


def test_a_token_submits_for_its_member(server: Served) -> None:
    token = submitting(server)
    event = {"member": "ann", "value": 1}
    first = ask(server, "POST", "boards/gifts/scores", token, event)
    assert (first.status_code, first.json()["score"]) == (200, 1)
    for more in ({"labels": {"zone": "de"}}, {"id": "once"}, {"value": "10.5"}, {"value": 0}):
        answer = ask(server, "POST", "boards/gifts/scores", token, {**event, **more})
        assert answer.status_code == 200, more
    page = ask(server, "GET", "boards/gifts/top?labels=zone=de", ADMIN_KEY).json()
    assert page["entries"][0]["score"] == 13.5, "the event gets the labels of the token"


@pytest.mark.parametrize(
    "event",
    [
        {"member": "bob", "value": 1},
        {"member": "ann", "value": 11},
        {"member": "ann", "value": -1},
        {"member": "ann", "value": "10.6"},
        {"member": "ann", "value": [11]},
        {"member": "ann", "value": "NaN"},
        {"member": "ann", "value": "Infinity"},
        {"member": "ann", "value": None},
        {"member": "ann", "value": True},
        {"member": "ann", "value": {"s": 1}},
        {"member": "ann", "value": 1, "at": 1_000},
        {"member": "ann", "value": 1, "at": "2026-01-01T00:00:00Z"},
        {"member": "ann", "value": 1, "labels": {"zone": "fr"}},
        {"member": "ann", "value": 1, "labels": {"zone": "de", "x": "y"}},
        {"member": "ann", "value": 1, "labels": [["zone", "fr"]]},
        {"member": "ann", "value": 1, "board": "other"},
        {"value": 1},
        [{"member": "ann", "value": 1}],
        [{"member": "ann", "value": 1}, {"member": "ann", "value": 1}],
        [["ann", 1, 1_000]],
    ],
)
def test_a_token_submits_nothing_else(server: Served, event: object) -> None:
    answer = ask(server, "POST", "boards/gifts/scores", submitting(server), event)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "boards/other/scores"),
        ("POST", "scores"),
        ("POST", "boards/gifts/set"),
        ("POST", "boards/gifts/remove"),
        ("PUT", "boards/gifts/data"),
        ("PUT", "boards/gifts"),
        ("DELETE", "boards/gifts"),
        ("GET", "boards/gifts/top"),
        ("GET", "boards/gifts/live"),
        ("GET", "boards"),
        ("GET", "stats"),
        ("GET", "keys"),
        ("POST", "keys"),
        ("POST", "tokens"),
        ("POST", "rebuild"),
        ("POST", "boards/gifts/scores?position_source=s&position=1"),
    ],
)
def test_a_token_of_a_member_reaches_no_other_endpoint(
    server: Served, method: str, path: str
) -> None:
    event = {"member": "ann", "value": 1}
    answer = ask(server, method, path, submitting(server), event)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_a_token_has_a_rate(server: Served) -> None:
    token = submitting(server, rate=0.001, subject="slow")
    other = submitting(server, rate=0.001, subject="other")
    event = {"member": "ann", "value": 1}
    statuses = [ask(server, "POST", "boards/gifts/scores", token, event).status_code for _ in "ab"]
    assert statuses == [200, 429]
    assert ask(server, "POST", "boards/gifts/scores", other, event).status_code == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"member": ""},
        {"member": 7},
        {"labels": {"zone": 7}},
        {"labels": ["zone"]},
        {"min": "x"},
        {"min": 2, "max": 1},
        {"max": "NaN"},
        {"rate": 0},
        {"subject": "a\nb"},
        {"subject": "x" * 129},
    ],
)
def test_rules_of_another_form_are_refused(server: Served, fields: dict[str, object]) -> None:
    body = {"boards": ["gifts"], **RULE, **fields}
    assert ask(server, "POST", "tokens", ADMIN_KEY, body).status_code == 400


# Tokens as a query parameter


def test_only_tokens_are_accepted_in_a_url_and_only_for_streams(server: Served) -> None:
    url = f"{server.url}/v1/boards/gifts"
    made = ask(server, "POST", "tokens", ADMIN_KEY, {"boards": ["gifts"]}).json()
    for path in ("top", "standing", "stats"):
        answer = httpx.get(f"{url}/{path}", params={"token": made["token"]})
        assert answer.status_code == 401, path
    assert httpx.get(f"{url}/export", params={"token": ADMIN_KEY}).status_code == 401
    assert httpx.get(f"{url}/export", params={"token": made["token"]}).status_code == 200
    with httpx.stream("GET", f"{url}/live", params={"token": made["token"]}) as live:
        assert live.status_code == 200
