"""Rounds of load that alternate between peers, each with the maximum load and then half of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import msgspec

from bench.http import wrk
from bench.http.effort import HttpEffort
from bench.http.peers import HttpPeer, Paths
from bench.http.process import cpu_seconds, wait_until_idle
from bench.http.traffic import Requests
from bench.timing import Question, Sample, Unit

Beside: TypeAlias = Callable[[HttpPeer], AbstractContextManager[object]]
Figure: TypeAlias = tuple[str, Unit, float]

# At half load, a connection waits before each request. A wait and the request after it should take
# twice as long as a request at maximum load. So the length of the wait depends on the latency at
# half load, which is guessed for the first round and then measured.
_FIRST_GUESS = 0.25
_LEAST_WAIT = 0.5
_BUSY_SECONDS = 5.0
"""If a load has ended without any answer, it is repeated for this many seconds."""


class Case(msgspec.Struct, frozen=True):
    """One kind of request, which all peers get. It has a table of its own."""

    group: str
    requests: Requests
    path: Callable[[Paths], str]
    connections: int


class Run(msgspec.Struct, frozen=True):
    """The load of one run, and the processor time that the peer used."""

    load: wrk.Load
    cpu_seconds: float


class Turn(msgspec.Struct, frozen=True):
    """The results of one peer in one round."""

    most: Run
    half: Run
    answering: float
    """The latency at half load as a fraction of the latency at maximum load."""

    def figures(self) -> Iterator[Figure]:
        most, half = self.most.load, self.half.load
        yield "requests/s", "requests/s", most.requests_a_second
        yield "CPU a request, µs", "µs", 1e6 * self.most.cpu_seconds / most.answered
        yield "p50, ms", "ms", most.p50_us / 1e3
        yield "p99, ms", "ms", most.p99_us / 1e3
        share = half.requests_a_second / most.requests_a_second
        yield "half load, reached", "%", 100 * share
        yield "p50 at half, ms", "ms", half.p50_us / 1e3
        yield "p99 at half, ms", "ms", half.p99_us / 1e3


class Rounds:
    """Puts the load of one case after another on the peers, which take turns in each round."""

    def __init__(self, effort: HttpEffort, load_core: int, say: Callable[[str], None]) -> None:
        self._effort = effort
        self._core = load_core
        self._say = say

    def measure(
        self, case: Case, peers: Sequence[HttpPeer], beside: Beside = nullcontext
    ) -> list[Sample]:
        """Return the figures of all rounds except the first. While a peer is measured, the context
        manager `beside(peer)` is entered, which may put an additional load on this peer."""
        self._say(case.group)
        answering = [_FIRST_GUESS for _ in peers]
        kept: list[list[list[Figure]]] = [[] for _ in peers]
        for number in range(self._effort.rounds + 1):
            seconds = self._effort.seconds if number else self._effort.warm_seconds
            for place, peer in enumerate(peers if seconds else ()):
                with beside(peer):
                    turn = self._turn(case, peer, seconds, answering[place])
                answering[place] = turn.answering
                if number:
                    kept[place].append(list(turn.figures()))
        return [
            sample
            for peer, rounds in zip(peers, kept, strict=True)
            for sample in samples_of(case.group, self._effort.members, peer, rounds)
        ]

    def _turn(self, case: Case, peer: HttpPeer, seconds: float, answering: float) -> Turn:
        most = self._run(case, peer, seconds)
        lasts = case.connections / most.load.requests_a_second
        wait = max(2 - answering, _LEAST_WAIT)
        half = self._run(case, peer, seconds, 1e3 * wait * lasts)
        took = case.connections / half.load.requests_a_second / lasts - wait
        return Turn(most, half, took)

    def _run(self, case: Case, peer: HttpPeer, seconds: float, wait_ms: float = 0) -> Run:
        """Put a load on a peer for this many seconds. If nothing is answered in that time, repeat
        it once for a longer time."""
        try:
            return self._load(case, peer, seconds, wait_ms)
        except wrk.NothingAnswered:
            wait_until_idle(peer.pids)  # requests without an answer may still be counted
            return self._load(case, peer, _BUSY_SECONDS, wait_ms)

    def _load(self, case: Case, peer: HttpPeer, seconds: float, wait_ms: float) -> Run:
        peer.use()
        watched = Watched(case.requests, peer) if case.requests.batches else None
        before = sum(map(cpu_seconds, peer.pids))
        load = wrk.send(
            case.requests,
            peer.port,
            case.path(peer.paths),
            core=self._core,
            connections=case.connections,
            seconds=seconds,
            wait_ms=wait_ms,
        )
        run = Run(load, sum(map(cpu_seconds, peer.pids)) - before)
        if watched is not None:
            watched.check(load)
        return run


class Watched:
    """The scores of the members with the greatest sums, before and after a run of writes."""

    def __init__(self, requests: Requests, peer: HttpPeer) -> None:
        self._requests = requests
        self._peer = peer
        self._before = peer.scores(requests.watched)

    def check(self, load: wrk.Load) -> None:
        """Check that every member has gained the points of its events, except for events in
        progress at the end of the run. Raise AssertionError otherwise."""
        if self._before is None:
            return
        wait_until_idle(self._peer.pids)
        after = self._peer.scores(self._requests.watched)
        assert after is not None
        sent = self._requests.events(load.sent)
        missing = 0
        for member, had, has in zip(self._requests.watched, self._before, after, strict=True):
            lacks = sent[member] - (has - had)
            if lacks < 0:
                raise AssertionError(f"{member} gained {-lacks} more than was sent to it")
            missing += lacks
        if missing > (load.sent - load.answered) * self._requests.largest:
            raise AssertionError(f"{missing} points of answered requests are missing")


def samples_of(
    group: str, members: int, peer: HttpPeer, rounds: Sequence[Sequence[Figure]]
) -> list[Sample]:
    """Return a sample for each column of the table; each sample has one figure per round."""
    return [
        Sample(
            Question(group, members, case, unit),
            peer.name,
            peer.settings,
            peer.ours,
            peer.safety,
            [figures[place][2] for figures in rounds],
            peer.rival,
        )
        for place, (case, unit, _) in enumerate(rounds[0])
    ]
