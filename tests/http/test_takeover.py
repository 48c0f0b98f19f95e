"""A service is killed during a move and never starts again. Another service with the same index
servers takes the board over, wherever the move was interrupted, and no acknowledged event is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

import laurels
from laurels.cli.program import main
from laurels.errors.placement import BoardMoving, MoveRefused
from laurels.stores.redis.tracking import TrackedServerBoard
from laurels.stores.routed.moving import Mover
from tests.conftest import Scaled
from tests.http.process import Process
from tests.http.test_moving import Writers, fill
from tests.http.test_moving_kills import KILLED, config_of, moved, reading
from tests.http.test_placement import ADMIN, Site, keyed, names_in
from tests.redis.servers import Server, until
from tests.serving import ADMIN_KEY


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with Server() as one, Server() as two:
        yield one, two


@pytest.fixture(autouse=True)
def no_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mover, "linger_seconds", 0.0)


def move(url: str, to: int, takeover: str | None = None) -> httpx.Response:
    body: dict[str, Any] = {"to": to} | ({} if takeover is None else {"takeover": takeover})
    return httpx.post(f"{url}/v1/boards/a1/move", json=body, headers=ADMIN, timeout=600)


def patient_move(url: str, to: int) -> httpx.Response:
    """Move a board with a takeover. Try again if the machine is too busy for the move."""
    for _ in range(20):
        if (answer := move(url, to, "checked")).status_code != 503:
            break
    return answer


def interrupted(
    folder: Path, servers: tuple[Server, Server], step: str, to: int = 3
) -> dict[str, str]:
    """Start a service that begins to move the board `a1`, and end this service at a step of the
    move, as a kill does. Return the stores of the service."""

    def killed(*_: object) -> None:
        raise MoveRefused("killed")

    with Site(folder, *servers) as site, pytest.MonkeyPatch.context() as patch:
        fill(site.lb)
        patch.setattr(Mover, step, killed)
        patch.setattr(Mover, "_give_up", lambda *_: None)
        patch.setattr(TrackedServerBoard, "end", lambda _: None)
        assert move(site.url, to).json()["code"] == MoveRefused.code
        return site.stores


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The folders of two services with the same keys on the index servers."""
    return tmp_path / "one" / tmp_path.name, tmp_path / "two" / tmp_path.name


@pytest.mark.parametrize("step", ["_copy_in_rounds", "_complete", "_switch"])
@pytest.mark.parametrize("to", [2, 3, 1])
def test_a_board_that_was_not_switched_stays_in_its_store(
    folders: tuple[Path, Path], servers: tuple[Server, Server], step: str, to: int
) -> None:
    stores = interrupted(folders[0], servers, step)
    with Site(folders[1], *servers) as two:
        assert move(two.url, 3).json()["code"] == BoardMoving.code
        assert move(two.url, 2).json()["rows"] == 0  # already in this store
        answer = move(two.url, to, "checked")
        assert answer.json()["store"] == to, answer.text
        two.lb.submit("a1", "new", 1)
        two.lb.change("a1", title="another")
        assert two.lb.top("a1", limit=1).total == 51
        expected = [["a1"] if number == to else [] for number in (2, 3)]
        until(lambda: list(map(names_in, stores.values())) == expected, "the other store is empty")


def killed_after_the_switch(folder: Path, servers: tuple[Server, Server]) -> dict[str, str]:
    """Let a service move a board. The service is killed after it has switched the board and counted
    one event in the new store, and before the move has ended. Return the stores of the service."""
    with Site(folder, *servers) as one, pytest.MonkeyPatch.context() as patch:
        fill(one.lb)
        patch.setattr(Mover, "_settle_later", lambda *_: None)
        assert move(one.url, 3).is_success
        one.lb.submit("a1", "late", 1)
        return one.stores


@pytest.mark.parametrize("points_to", [2, 3])
def test_a_board_that_was_copied_completely_is_served_from_its_copy(
    folders: tuple[Path, Path], servers: tuple[Server, Server], points_to: int
) -> None:
    """The old store still has the board, and refuses its writes. In the other service the name of
    the board points to the old store or to the new one."""
    stores = killed_after_the_switch(folders[0], servers)
    in_order = servers if points_to == 2 else servers[::-1]
    old, new = (2, 3) if points_to == 2 else (3, 2)
    with Site(folders[1], *in_order) as two:
        if points_to == 2:
            assert two.lb.standing("a1", "late") is None
            with pytest.raises(BoardMoving):
                two.lb.submit("a1", "ann", 1)
        assert move(two.url, new, "checked").json()["store"] == new
        two.lb.submit("a1", "late", 1)
        assert two.lb.top("a1", limit=1).total == 51
        assert two.lb.check().boards == 1
        assert (names_in(stores["a*"]), names_in(stores["b*"])) == ([], ["a1"])
    with Site(folders[1], *in_order) as two:
        standing = two.lb.standing("a1", "late")
        assert standing is not None
        assert standing.score == 2
        assert move(two.url, old).json()["store"] == old


def test_the_target_has_to_be_known_or_lost(
    folders: tuple[Path, Path],
    servers: tuple[Server, Server],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The killed service was moving the board into its own folder, which the other service
    lacks."""
    interrupted(folders[0], servers, "_switch", to=1)
    with Site(folders[1], *servers) as two:
        refused = move(two.url, 2, "checked").json()
        assert refused["code"] == MoveRefused.code
        assert str(folders[0] / "boards") in refused["what"]
        with pytest.raises(BoardMoving):
            two.lb.submit("a1", "ann", 1)
        assert move(two.url, 2, "everywhere").json()["code"] == "invalid_body"
        command = ["move", "a1", "--to", "2", "--at", keyed(two.url)]
        assert main([*command, "--take-over"]) == 2
        assert main([*command, "--target-lost"]) == 0
        two.lb.submit("a1", "ann", 1)
        assert main([*command, "--take-over"]) == 0
    capsys.readouterr()


def test_a_paused_service_cannot_continue_a_move_that_was_taken_over(
    folders: tuple[Path, Path], servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first service stops before each of the last steps, until the second one has taken the
    board over. The first one then fails, and the event of the second one stays."""
    steps: list[tuple[str, Callable[..., Any]]] = []
    for step in ("_complete", "_switch"):
        steps.append((step, getattr(Mover, step)))
    for number, (step, original) in enumerate(steps):
        folder = folders[0].parent / f"{number}" / folders[0].name
        with (
            Site(folder, *servers) as one,
            Site(folders[1], *servers) as two,
            monkeypatch.context() as patch,
        ):
            fill(one.lb)
            waits = [True]

            def paused(
                *arguments: Any,
                original: Callable[..., Any] = original,
                url: str = two.url,
                waits: list[bool] = waits,
            ) -> Any:
                if waits and waits.pop():
                    assert move(url, 2, "checked").status_code == 200
                    two.lb.submit("a1", "late", 1)
                return original(*arguments)

            patch.setattr(Mover, step, paused)
            answer = move(one.url, 3)
            # The first service may copy the board anew, as nobody else moves it by now.
            store = one.stores["b*" if answer.is_success else "a*"]
            with laurels.open(store) as lb:
                assert lb.standing("a1", "late") is not None
                lb.submit("a1", "late", 1)
                lb.delete("a1")


def test_a_service_does_not_take_over_its_own_move(
    folders: tuple[Path, Path], servers: tuple[Server, Server]
) -> None:
    interrupted(folders[0], servers, "_switch")
    with Site(folders[0], *servers) as one:  # when the service starts again, it ends the move
        assert move(one.url, 3, "checked").json()["store"] == 3


def test_a_board_whose_route_is_lost_is_found_in_another_store(
    folders: tuple[Path, Path], servers: tuple[Server, Server]
) -> None:
    with Site(folders[0], *servers) as one:
        fill(one.lb)
        assert move(one.url, 3).status_code == 200
        until(lambda: names_in(one.stores["a*"]) == [], "the old store is empty")
    with Site(folders[1], *servers) as two:
        assert move(two.url, 3).json()["code"] == "unknown_board"
        assert move(two.url, 3, "checked").json()["store"] == 3
        assert two.lb.top("a1", limit=1).total == 50
        two.lb.submit("a1", "new", 1)
        assert move(two.url, 2, "checked").json()["store"] == 2
        assert two.lb.top("a1", limit=1).total == 51


@pytest.mark.parametrize("kind", KILLED)
def test_another_service_goes_on_after_a_kill_at_any_moment_of_a_move(
    tmp_path: Path, servers: tuple[Server, Server], scaled: Scaled, kind: str
) -> None:
    """After each kill a service with another folder takes the board over. The killed service never
    starts again."""
    killed = KILLED[kind]
    random = Random(20_261_129)
    counted, interrupted = [0, 0, 0], 0
    file = config_of(tmp_path, *servers)
    prefix = f"?prefix={tmp_path.name}:"
    stores = [f"{each.url}{prefix}" for each in servers]

    def serve(number: int) -> Process:
        variables: dict[str, Any] = {"LAURELS_ADMIN_KEY": ADMIN_KEY}
        return Process(tmp_path / str(number), "--config", str(file), keys=True, **variables)

    with serve(0) as server, laurels.open(keyed(server.url)) as lb:
        killed.create(lb)
        server.end()
    for number in range(scaled(3, 200)):
        with serve(number) as server:
            assert [names_in(store) for store in stores].count(["a1"]) == 1
            assert patient_move(server.url, 2).is_success
            writers = Writers(server.url, counted, labels=killed.labels)
            answered = threading.Event()
            moving = threading.Thread(target=moved, args=(server.url, 3, answered))
            moving.start()
            reading(server.url, random.randrange(200), answered)
            server.kill()
            interrupted += not answered.is_set()
            moving.join()
            writers.stop()
            assert not writers.failures
            counted = writers.acknowledged
        with serve(number + 1) as server, laurels.open(keyed(server.url)) as lb:
            to = random.choice([2, 3])
            answer = patient_move(server.url, to)
            assert answer.json().get("store") == to, answer.text
            killed.ensure_counted(lb, counted)
            lb.check()
            server.end()
    assert interrupted
