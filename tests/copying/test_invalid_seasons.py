"""Sealed periods and payouts that come over a network are checked before they are written."""

from __future__ import annotations

from contextlib import closing
from random import Random

import laurels
from laurels import Leaderboards
from laurels.config.portable import portable
from laurels.core.contents import RankingRows
from laurels.core.copy_checks import ensure_origin, ensure_piece, ensure_rest
from laurels.errors import LaurelsError
from laurels.flows.copying.copying import copy_board
from laurels.model.board import Board
from laurels.stores.board_copies import BoardCopies
from laurels.wire.copies import encode_json, origin_in, pieces_in, rest_in
from tests.conftest import Scaled
from tests.internals import copies_of

from .seasons import SEASONS, START_MS, play_seasons, seasons
from .test_over_http import changed


def write(copies: BoardCopies, origin: bytes, parts: list[bytes], bodies: list[bytes]) -> None:
    """Write a copy as a service does when it receives these bodies: an origin, the parts that were
    left out of it, and pieces."""
    begun = origin_in(origin)
    ensure_origin(begun, SEASONS.name)
    copies.begin(begun)
    rules = Board.from_json(begun.definition).rules()
    for part in map(rest_in, parts):
        ensure_rest(part, rules)
        copies.extend(SEASONS.name, part)
    for body in bodies:
        pieces = pieces_in(body)
        for piece in pieces:
            ensure_piece(piece, begun.uid, rules)
        copies.put(SEASONS.name, pieces)
    copies.finish(SEASONS.name)


def test_invalid_sealed_periods_and_payouts_are_refused_or_harmless(scaled: Scaled) -> None:
    """One value of a sealed period, of a payout or of the origin is changed. Then the copy is
    refused with an error that blames the request, or it succeeds and can be read and written."""
    random, clock = Random(11), laurels.ManualClock(START_MS)
    with laurels.open("memory:", clock=clock) as lb:
        play_seasons(lb, clock)
        copies = copies_of(lb)
        whole = copies.origin(SEASONS.name)
        origin, head, rest = (
            encode_json(whole),
            encode_json(whole.head()),
            list(map(encode_json, whole.rest())),
        )
        pieces = list(copies.pieces(SEASONS.name))
        encoded = [encode_json([piece]) for piece in pieces]
        places = [i for i, each in enumerate(pieces) if not isinstance(each, RankingRows)]
        refused = finished = 0
        others: list[LaurelsError] = []
        for _ in range(scaled(80, 5_000)):
            bodies, begin, parts = [*encoded], origin, list[bytes]()
            if random.random() < 0.3:
                begin, parts = random.choice([(origin, []), (head, rest)])
                sent = [begin, *parts]
                at = random.randrange(len(sent))
                sent[at] = changed(sent[at], random)
                begin, *parts = sent
            else:
                at = random.choice(places)
                bodies[at] = changed(bodies[at], random)
            with closing(portable("memory:", clock, create=True)) as target:
                try:
                    write(target.copies, begin, parts, bodies)
                except LaurelsError as error:
                    refused += error.status in (400, 404, 409)
                    others += [error] if error.status not in (400, 404, 409) else []
                else:
                    finished += 1
                    other = Leaderboards(target)
                    for info in other.archived(SEASONS.name):
                        other.top(SEASONS.name, window=info.window, period=info.period)
                    other.payouts(SEASONS.name)
                    other.due_payouts()
                    other.check()
        assert others == []
        assert refused
        assert finished
        with closing(portable("memory:", clock, create=True)) as target:
            assert copy_board(copies, target.copies, SEASONS.name).compared.differences == []
            assert seasons(Leaderboards(target), SEASONS.name) == seasons(lb, SEASONS.name)
