"""Copies of boards to and from a service, even if one of the three processes is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec
import pytest

import laurels
from laurels import Board
from laurels.core.contents import Piece
from laurels.errors import UnknownBoard
from laurels.errors.service import ServerUnreachable, UnknownAnswer
from laurels.stores.http.copies import RemoteCopies
from laurels.stores.http.transport import ServiceAddress, Wire
from laurels.wire.copies import PiecesEnd, encode_json, line_of
from tests.cli.running import Shell
from tests.conftest import Scaled
from tests.counts import rare
from tests.internals import copies_of
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, JSON, Served

from .boards import BOARDS, answers, play
from .test_command import fill

NAMES = ["gems", "gifts", "points"]
KILLED = """
import os, signal
from {module} import {kind} as Copies
original, calls = Copies.{method}, 0
def killing(*arguments):
    global calls
    calls += 1
    if calls == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments)
def killing_midway(*arguments):
    for place, piece in enumerate(original(*arguments)):
        if place == {at}:
            os.kill(os.getpid(), signal.SIGKILL)
        yield piece
Copies.{method} = killing_midway if "{method}" == "pieces" else killing
"""
"""Code that makes a process kill itself before it writes or sends the given piece."""
LOCAL = ("laurels.stores.local.copies", "LocalCopies")
REMOTE = ("laurels.stores.http.copies", "RemoteCopies")


def killed(place: tuple[str, str], method: str, at: int) -> str:
    return KILLED.format(module=place[0], kind=place[1], method=method, at=at)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    return Shell(monkeypatch, tmp_path)


@contextmanager
def serving(folder: Path, prelude: str) -> Iterator[str]:
    """Run an open server in a process of its own, in which `prelude` runs first."""
    program = f"import sys\nfrom laurels.cli import main\n{prelude}\nsys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", program, "serve", "--data", folder, "--open", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if line.startswith("serving "):
                    yield line.strip().rpartition(" on ")[2]
                    break
            else:
                pytest.fail("the server did not start")
        finally:
            process.kill()


def lists(url: str | Path) -> dict[str, list[tuple[str, object]]]:
    with laurels.open(url, create=False) as lb:
        lb.check()
        return {
            board.name: [(e.member, e.score) for e in lb.export(board.name)]
            for board in lb.boards()
        }


def test_boards_move_through_a_service_and_an_event_counts_once(
    shell: Shell, tmp_path: Path
) -> None:
    fill("boards")
    with Served(tmp_path / "served") as served:
        ran = shell("copy", "boards", served.url, "--board", "gems")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == (
            "gems: copied 20,000 rows; equal: 3 rankings with 15,000 entries, 1 tallies, "
            "5,000 event ids, data of 0 members, 0 positions, "
            "0 sealed periods, 0 payouts\n"
        )
        with laurels.open(served.url) as lb:
            assert lb.submit("gems", "m7", 7, id="e7").status == "duplicate"
            assert lb.submit("gems", "m7", 7, id="new").score == 14
        assert shell("copy", served.url, "back").code == 0
    with laurels.open("back", create=False) as lb:
        assert lb.submit("gems", "m7", 7, id="new").status == "duplicate"
        lb.check()


def test_boards_are_copied_to_and_from_an_index_server_behind_a_service(shell: Shell) -> None:
    fill("boards")
    server = Server()
    try:
        with Served(server.url, admin_key=ADMIN_KEY) as served:
            url = served.url.replace("://", f"://{ADMIN_KEY}@")
            assert shell("copy", "boards", url).code == 0
            assert shell("copy", url, "back").code == 0
        assert lists("back") == lists("boards")
    finally:
        server.stop()


def test_a_copy_needs_a_key_for_all_boards(shell: Shell, tmp_path: Path) -> None:
    fill("boards")
    with Served(tmp_path / "served", admin_key=ADMIN_KEY) as served:
        url = served.url.replace("://", "://{}@")
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        secrets = {}
        wanted: dict[str, dict[str, Any]] = {
            "reader": {"scope": "read"},
            "writer": {"scope": "write"},
            "some": {"scope": "admin", "boards": ["gems"]},
            "all": {"scope": "admin"},
        }
        for name, fields in wanted.items():
            made = httpx.post(
                f"{served.url}/v1/keys", json={"name": name, **fields}, headers=headers
            )
            secrets[name] = made.json()["key"]
        for name in ("reader", "writer", "some"):
            for pair in (("boards", url), (url, "stolen")):
                ran = shell("copy", *[each.format(secrets[name]) for each in pair])
                assert (ran.code > 0, "[forbidden]" in ran.err) == (True, True), ran
        assert shell("copy", "boards", url.format(secrets["all"])).code == 0
        entries = httpx.get(f"{served.url}/v1/audit", headers=headers).json()["entries"]
        verbs = [each["verb"] for each in entries]
        assert verbs.count("copy_begin") == verbs.count("copy_finish") == 3
        assert "copy_put" not in verbs


@pytest.mark.parametrize(
    ("method", "at"), [("put", 1), ("put", 9), ("finish", 2), *rare(("begin", 2), ("put", 4))]
)
def test_a_copy_whose_command_was_killed_can_be_repeated(
    shell: Shell, tmp_path: Path, method: str, at: int
) -> None:
    fill("boards")
    with Served(tmp_path / "served") as served:
        ran = shell.process("copy", "boards", served.url, prelude=killed(REMOTE, method, at))
        assert ran.returncode == -9, ran.stderr
        before, source = lists(served.url), lists("boards")
        assert before == {name: source[name] for name in before}
        again = shell("copy", "boards", served.url, "--json")
        assert again.code == 0, again.err
        done = [each["board"] for each in again.json() if not each["copied"]]
        assert done == sorted(before)
        assert lists(served.url) == source


@pytest.mark.parametrize(
    ("method", "at"), [("put", 2), ("finish", 2), *rare(("begin", 1), ("put", 6))]
)
def test_a_copy_whose_target_was_killed_can_be_repeated(
    shell: Shell, tmp_path: Path, method: str, at: int
) -> None:
    fill("boards")
    with serving(tmp_path / "served", killed(LOCAL, method, at)) as url:
        ran = shell("copy", "boards", url)
        assert ran.code == 2, ran
        assert "[server_unreachable]" in ran.err
    source, before = lists("boards"), lists("served")
    assert before == {name: source[name] for name in before}
    with Served(tmp_path / "served") as served:
        assert shell("copy", "boards", served.url).code == 0
        assert lists(served.url) == source


@pytest.mark.parametrize(("method", "at"), [("origin", 2), ("pieces", 3), *rare(("pieces", 1))])
def test_a_copy_whose_source_was_killed_can_be_repeated(
    shell: Shell, tmp_path: Path, method: str, at: int
) -> None:
    fill(tmp_path / "served")
    with serving(tmp_path / "served", killed(LOCAL, method, at)) as url:
        ran = shell("copy", url, "boards")
        assert ran.code == 2, ran
        assert "[server_unreachable]" in ran.err
    assert lists("boards") == {}
    with Served(tmp_path / "served") as served:
        assert shell("copy", served.url, "boards").code == 0
        assert lists("boards") == lists(served.url)


def remote(answer: bytes) -> RemoteCopies:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=answer))
    address = ServiceAddress("http://localhost")
    return RemoteCopies(Wire(address, lambda: "key", lambda _: None, transport))


def test_incomplete_pieces_are_an_error() -> None:
    with laurels.open("memory:") as lb:
        lb.create(Board("gifts"))
        lb.submit("gifts", "alice", 5)
        pieces = list(copies_of(lb).pieces("gifts"))
    sent = b"".join(map(line_of, pieces))
    assert list(remote(sent + line_of(PiecesEnd(1))).pieces("gifts")) == pieces
    with pytest.raises(ServerUnreachable):
        list(remote(sent).pieces("gifts"))
    for bad in (sent + line_of(PiecesEnd(2)), sent[:-9] + b"\n"):
        with pytest.raises(UnknownAnswer):
            list(remote(bad).pieces("gifts"))
    problem = b'{"code": "unknown_board", "what": "there is no board"}\n'
    with pytest.raises(UnknownBoard):
        list(remote(sent + problem).pieces("gifts"))


def test_invalid_pieces_are_refused_or_harmless(tmp_path: Path, scaled: Scaled) -> None:
    """A piece or an origin with one changed value is either accepted or refused. It causes no
    internal error, and the store stays consistent."""
    random, clock = Random(7), laurels.ManualClock(1_795_215_600_000)
    with laurels.open("memory:", clock=clock) as lb, Served(tmp_path / "served", clock) as served:
        play(lb, clock, days=3)
        for board in BOARDS:
            copies, path = copies_of(lb), f"{served.url}/v1/boards/{board.name}/copy"
            body = encode_json(copies.origin(board.name))
            for _ in range(scaled(6, 300)):
                posted = httpx.post(path, content=changed(body, random), headers=JSON)
                if posted.status_code == 204:
                    assert httpx.delete(path, headers=JSON).status_code == 204
                else:
                    assert posted.status_code in (400, 409), posted.text
            assert httpx.post(path, content=body, headers=JSON).status_code == 204
            pieces = list(copies.pieces(board.name))
            for _ in range(scaled(8, 1_000)):
                sent = changed(encode_json([random.choice(pieces)]), random)
                posted = httpx.post(f"{path}/pieces", content=sent, headers=JSON)
                assert posted.status_code in (204, 400), posted.text
            assert httpx.delete(path, headers=JSON).status_code == 204
        assert httpx.post(f"{served.url}/v1/check", headers=JSON).status_code == 200
        for board in BOARDS:
            with laurels.open(served.url) as other:
                done = copies_of(other)
                done.begin(copies_of(lb).origin(board.name))
                done.put(board.name, list(copies_of(lb).pieces(board.name)))
                done.finish(board.name)
                assert answers(other, board) == answers(lb, board)


def changed(body: bytes, random: Random) -> bytes:
    """Return a document in which one value is replaced."""
    read = msgspec.json.decode(body)
    place, key = read, 0
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = random.choice(keys)
        if not isinstance(place[key], list | dict) or not place[key] or random.random() < 0.1:
            break
        place = place[key]
    odd: list[Any] = [
        None,
        "",
        "AAAA",
        "/w==",
        -1,
        0,
        2**53,
        2**63 - 1,
        -(2**63),
        2**70,
        [],
        {},
        True,
        1.5,
    ]
    odd += ["ids", "rows", "@room", "room=1", "all", "day", [[0, ["AWFi"]]], {"all": 5}]
    place[key] = random.choice(odd)
    return msgspec.json.encode(read)


def test_pieces_of_another_board_are_refused(tmp_path: Path) -> None:
    with laurels.open("memory:") as lb, Served(tmp_path / "served") as served:
        lb.create(Board("gifts"))
        lb.create(Board("bests", columns=[laurels.Column("best", op="best", max=10)]))
        lb.submit("gifts", "alice", 5_000)
        copies, path = copies_of(lb), f"{served.url}/v1/boards/bests/copy"
        sent = encode_json(copies.origin("gifts"))
        assert httpx.post(path, content=sent, headers=JSON).json()["code"] == "invalid_copy"
        sent = encode_json(copies.origin("bests"))
        assert httpx.post(path, content=sent, headers=JSON).status_code == 204
        assert httpx.post(path, content=sent, headers=JSON).json()["code"] == "name_taken"
        pieces: list[Piece] = list(copies.pieces("gifts"))
        posted = httpx.post(f"{path}/pieces", content=encode_json(pieces), headers=JSON)
        assert (posted.status_code, posted.json()["code"]) == (400, "invalid_copy")
        path = f"{served.url}/v1/boards/gifts/copy"
        posted = httpx.post(f"{path}/pieces", content=encode_json(pieces), headers=JSON)
        assert (posted.status_code, posted.json()["code"]) == (409, "copy_lost")
        assert httpx.post(f"{path}/finish", headers=JSON).json()["code"] == "copy_lost"
