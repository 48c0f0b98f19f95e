"""A ranking with a head on a server, and beside it a list of all its members in order."""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from laurels.stores.redis.index.head import HEAD_WRITES, HeadSizes
from laurels.stores.redis.sources import script_of

from .servers import Server

Words = tuple[int, ...]
Key = tuple[Words, bytes]

SIZES = HeadSizes(
    slack=20, capacity=8, sample=400, edges=256, step=0.05, width=0.2, least=8, trims=30
)
HEAD = 20
BASE = "{x}"
_SPACE = 1 << 32
_BLOCK = 64
_OWN = Path(__file__).with_name("head_probe.lua").read_text(encoding="utf-8")
_PARTS = ("shard", "zeros", *HEAD_WRITES, "hidden_entries", "hidden")
_SOURCE = "\n".join([*[script_of(part).source for part in _PARTS], _OWN])


class Layout(NamedTuple):
    """A layout of scores on the server: how it stores the words of a member. In a layout that packs
    all words into one number, the part of the first word is its difference from `low`, times
    `unit`."""

    name: str
    scored: bool
    has_tie: bool
    stamped: bool
    low: int
    unit: int


LAYOUTS = (
    Layout("plain", scored=True, has_tie=False, stamped=False, low=0, unit=1),
    Layout("packed", scored=True, has_tie=True, stamped=False, low=-(1 << 30), unit=1 << 20),
    Layout("prefixed", scored=False, has_tie=True, stamped=False, low=0, unit=1),
    Layout("stamped", scored=False, has_tie=True, stamped=True, low=0, unit=1),
)


class View(NamedTuple):
    """The server's answers about a ranking. `members` has three numbers for each member: the least
    possible position, the least and the greatest possible rank. If a member is not ranked, because
    its score is 0 or it is hidden, all three are -1."""

    total: int
    certain: int
    grid_age: int | None
    members: list[list[int] | None]


class HeadRanking:
    """A ranking with a head on a server. All its ranked members are also kept in order in this
    process."""

    def __init__(
        self, server: Server, layout: Layout, rank: str, columns: int, sizes: HeadSizes = SIZES
    ) -> None:
        self.layout, self.rank, self.columns = layout, rank, columns
        self.hides_zero = False
        self.hidden: set[str] = set()
        self._kept: set[str] = set()
        """The hidden members whose entries the server keeps."""
        self._version = 0
        self.words: dict[str, Words] = {}
        self.order: list[Key] = []
        self._server = server
        self._sizes = sizes
        self._width = columns + layout.has_tie
        server.call("FLUSHALL")
        self._sha = hashlib.sha1(_SOURCE.encode()).hexdigest()
        self._board = msgspec.Raw(msgspec.msgpack.encode(self._encoded()))

    def _encoded(self) -> dict[str, Any]:
        layout = self.layout
        lows, units = [layout.low, 0], [layout.unit, 1]
        return {
            "version": "1",
            "columns": self.columns,
            "sums": [True] * self.columns,
            "tie": int(layout.has_tie),
            "stamped": layout.stamped,
            "best": False,
            "dense": False,
            "rank": self.rank,
            "least": [-(1 << 50)] * self.columns,
            "most": [1 << 50] * self.columns,
            "scored": layout.scored,
            "lows": lows[: self._width],
            "units": units[: self._width],
            "lives": False,
            "refreshed": False,
            "decays": False,
            "hide_zero": self.hides_zero,
            "head": self._sizes.encode(HEAD),
        }

    def is_ranked(self, words: Words) -> bool:
        return any(words[: self.columns]) or not self.hides_zero

    def hide_zero(self, *, hidden: bool) -> None:
        """Change whether members whose score is 0 are ranked."""
        self.hides_zero = hidden
        self._board = msgspec.Raw(msgspec.msgpack.encode(self._encoded()))
        self._ask("hide")
        self._sort()

    def hide(self, member: str, *, hidden: bool) -> None:
        """Hide a member, or show it again. This writes nothing."""
        (self.hidden.add if hidden else self.hidden.discard)(member)
        self._sort()

    def _sort(self) -> None:
        self.order = sorted(
            self._key(member, words)
            for member, words in self.words.items()
            if self._is_in_order(member, words)
        )

    def _is_in_order(self, member: str, words: Words) -> bool:
        return self.is_ranked(words) and member not in self.hidden

    def _ask(self, op: str, **arguments: Any) -> Any:
        arguments["hides"] = len(self.hidden)
        argument = msgspec.msgpack.encode({**arguments, "op": op, "board": self._board})
        return msgspec.msgpack.decode(self._server.call("EVAL", _SOURCE, 1, f"{BASE}m", argument))

    def write(self, entries: Mapping[str, Words | None]) -> None:
        """Set the words of members; None removes a member."""
        news = [words or False for words in entries.values()]
        self._ask("write", members=list(entries), news=news)
        for member, words in entries.items():
            before = self.words.pop(member, None)
            if before is not None and self._is_in_order(member, before):
                del self.order[bisect_left(self.order, self._key(member, before))]
            if words is not None:
                self.words[member] = words
                if self._is_in_order(member, words):
                    insort(self.order, self._key(member, words))

    def advance(self, limit: int) -> int:
        """Do a share of the due work. Return how much is left."""
        return int(self._ask("advance", limit=limit))

    def _keep(self) -> None:
        """Let the server keep the entries of the hidden members, if these have changed."""
        if self._kept != self.hidden:
            self._kept, self._version = {*self.hidden}, self._version + 1
            self._ask("keep", members=sorted(self.hidden), listed=str(self._version))

    def view(self, members: Sequence[str]) -> View:
        read = partial(self._ask, "read", members=list(members), zeros=self._zeros())
        answer = read(hidden=sorted(self.hidden))
        if self.hidden:
            self._keep()
            assert answer == read(hidden=True, listed=str(self._version), small=0)
        total, certain, age, entries = answer
        return View(
            int(total),
            int(certain),
            None if age is False else int(age),
            [x or None for x in entries],
        )

    def _zeros(self) -> list[list[Any]]:
        """Return where the members whose score is 0 begin and end in the order, as two bounds in
        the form of a request."""
        if self.layout.scored:
            first = -self.layout.low * self.layout.unit
            return [["count", first], ["count", first + self.layout.unit]]
        return [["count", [0] * self.columns, False], ["count", [0] * self.columns, True]]

    def _key(self, member: str, words: Words) -> Key:
        return words[: self._width], member.encode()

    # Invariants

    def check_bounds(self, members: Iterable[str]) -> View:
        """Check that the true rank of every member is within its bounds. For members in the first
        `view.certain` positions, check that the position and the rank are exact."""
        some = list(members)
        view = self.view(some)
        assert view.total == len(self.order)
        for member, entry in zip(some, view.members, strict=True):
            if member not in self.words:
                assert entry is None
                continue
            assert entry is not None
            position, low, high = entry
            own = self.words[member]
            if not self._is_in_order(member, own):
                assert entry == [-1, -1, -1]
                continue
            place = bisect_left(self.order, self._key(member, own))
            rank = place
            if self.rank == "competition":
                rank = bisect_left(self.order, (own[: self.columns], b""))
            assert low <= rank <= high, (member, low, rank, high, view)
            if place < view.certain:
                assert (position, low, high) == (place, rank, rank)
            else:
                assert view.certain <= position <= place
        return view

    def check_list(self) -> None:
        """Check that the head has the right members at all positions that are certain."""
        certain = self.view([]).certain
        entries = self._server.call("ZRANGE", f"{BASE}r:all:0", 0, -1)
        if not self.layout.scored:
            entries = [entry[8 * self._width :] for entry in entries]
        entries = [each for each in entries if self._is_listed(each)][:certain]
        assert list(entries) == [member for _, member in self.order[:certain]]

    def _is_listed(self, member: bytes) -> bool:
        """Return whether a member in the head is listed. The head may contain hidden members, and
        members whose score is 0 and who are no longer ranked."""
        return any(member == other for _, other in self.order)

    def check_structure(self) -> None:
        """Check that every member is in its bucket and in no other, and that every segment has the
        right number of members."""
        state = self._hash("g:all:0")
        if not state:
            return
        buckets = int(state["buckets"])
        level = 1 << (buckets.bit_length() - 1)
        split = buckets - level
        digests: dict[bytes, int] = {}
        for key in self._server.call("KEYS", f"{BASE}b:all:0:*"):
            id = int(key.rsplit(b":", 1)[1])
            for member in self._hash(key.decode().removeprefix(BASE)):
                digest = _digest(state["salt"].encode(), member.encode())
                part = digest * level // _SPACE
                own = level + part
                if part < split:
                    own = 2 * level + digest * 2 * level // _SPACE
                assert (id, member.encode() in digests) == (own, False)
                digests[member.encode()] = digest
        assert digests.keys() == {member.encode() for member in self.words}
        zeros = [words for words in self.words.values() if not any(words[: self.columns])]
        assert int(state.get("zeros", 0)) == len(zeros)
        if "edges" in state:
            self._check_grid("g", int(state["edges"]), lambda _: True)
        if state.get("phase") == "count":
            cursor = int(state["cursor"])
            self._check_grid(
                "n", int(state["counted"]), lambda member: digests[member.encode()] < cursor
            )

    def grid(self) -> list[tuple[int, bool]]:
        """Return for each segment its number of members, and whether all of them must have the same
        score."""
        count = int(self._hash("g:all:0")["edges"])
        edges = self._edges("g", count)
        runs = [
            one[:-1] == other[:-1] and one[-1] + 1 == other[-1] for one, other in pairwise(edges)
        ]
        return list(zip(self._counts("g", count), [False, *runs, False], strict=False))

    def _check_grid(self, kind: str, count: int, is_counted: Callable[[str], bool]) -> None:
        edges = self._edges(kind, count)
        assert edges == sorted(set(edges))
        expected = [0] * (count + 1)
        for member, words in self.words.items():
            if is_counted(member) and self.is_ranked(words):
                expected[bisect_right(edges, self._score(words))] += 1
        blocks = [sum(expected[i : i + _BLOCK]) for i in range(0, count + 1, _BLOCK)]
        assert self._counts(kind, count) == expected
        stored = self._stored_counts(kind)
        assert stored[count + 1 : count + 1 + len(blocks)] == blocks

    def _score(self, words: Words) -> tuple[float, ...]:
        score = words[: self.columns]
        return (score[0] - self.layout.low,) if self.layout.scored else score

    def _edges(self, kind: str, count: int) -> list[tuple[float, ...]]:
        width = 1 if self.layout.scored else self.columns
        tops = -(-count // _BLOCK)
        stored = self._server.call("GET", f"{BASE}{kind}e:all:0") or b""
        assert len(stored) == 8 * width * (count + tops)
        size = 8 * width
        return [
            struct.unpack(f"<{width}d", stored[size * i : size * (i + 1)])
            for i in range(tops, tops + count)
        ]

    def _counts(self, kind: str, count: int) -> list[int]:
        return self._stored_counts(kind)[: count + 1]

    def _stored_counts(self, kind: str) -> list[int]:
        stored = self._server.call("GET", f"{BASE}{kind}c:all:0")
        return list(struct.unpack(f">{len(stored) // 4}I", stored))

    def _hash(self, name: str) -> dict[str, str]:
        flat = self._server.call("HGETALL", BASE + name)
        items = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        return {key.decode(): value.decode("latin-1") for key, value in items}


def _digest(salt: bytes, member: bytes) -> int:
    return int(hashlib.sha1(salt + member).hexdigest()[:8], 16)


class Crowd:
    """Members whose scores change in one of several ways (`way`), each of which is difficult for
    the layout."""

    def __init__(self, ranking: HeadRanking, way: str, rng: Random, members: int) -> None:
        self.ranking, self.way, self.rng = ranking, way, rng
        self.names = [f"m{i}" if i % 7 else f'é/"{i}\\' for i in range(members)]
        self.steps = 0

    def entries(self) -> dict[str, Words | None]:
        """Return the entries of the next write: random members with new words, or None to remove
        the member."""
        rng, ranking = self.rng, self.ranking
        self.steps += 1
        entries: dict[str, Words | None] = {}
        for _ in range(1 if rng.random() < 0.6 else rng.randrange(2, 40)):
            if self.way == "the best are deleted" and self.steps % 3 == 0 and ranking.order:
                best = ranking.order[rng.randrange(min(5, len(ranking.order)))]
                entries[best[1].decode()] = None
            else:
                member = rng.choice(self.names)
                entries[member] = None if rng.random() < 0.02 else self._words(member)
        return entries

    def many(self, count: int) -> dict[str, Words | None]:
        """Return new scores for `count` members, to be written in one batch."""
        self.steps += 1
        return {member: self._words(member) for member in self.rng.sample(self.names, count)}

    def _words(self, member: str) -> Words:
        rng, ranking = self.rng, self.ranking
        before = ranking.words.get(member)
        score = self._score(0 if before is None else -before[0])
        words = [-score, *[-rng.randrange(4) for _ in range(ranking.columns - 1)]]
        if ranking.layout.has_tie:
            words.append(self.steps + rng.randrange(5))
        if ranking.layout.stamped:
            words.append(self.steps)
        return tuple(words)

    def _score(self, before: int) -> int:
        rng = self.rng
        match self.way:
            case "scores within 0.1 %":
                return 1_000_000 + rng.randrange(1_000)
            case "one score for half":
                return 500 if rng.random() < 0.5 else rng.randrange(1_000)
            case "all rise":
                return max(before, 0) + 3 * self.steps + rng.randrange(50)
            case "all fall":
                return -(3 * self.steps + rng.randrange(50))
            case "two scores":
                return rng.choice([1, 2])
            case "sums":
                return before + rng.randrange(-100, 120)
            case "half are zero":
                return 0 if rng.random() < 0.5 else rng.randrange(-500, 500)
            case "nearly all are zero":
                return 0 if rng.random() < 0.9 else rng.randrange(1_000)
            case "zero is first":
                return 0 if rng.random() < 0.4 else -rng.randrange(800)
            case "two scores of which one is zero":
                return rng.choice([0, 2])
            case "negative":
                return rng.randrange(-1_000, 1_000)
            case _:
                return int(rng.lognormvariate(10, 2)) % (1 << 29)


WAYS = (
    "scores within 0.1 %",
    "one score for half",
    "all rise",
    "all fall",
    "two scores",
    "sums",
    "negative",
    "lognormal",
    "the best are deleted",
)
