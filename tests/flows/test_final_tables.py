"""Sealed periods in the tables of a ledger: they give the same answers as the archive of a folder,
and are whole or absent."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any, get_args

import pytest

import laurels
from laurels.core.closing import SealedPeriod
from laurels.core.hiding import Hiding
from laurels.core.payouts import PayoutRow
from laurels.core.sealed_contents import DigestOfPieces, SealedRevision
from laurels.errors.ledger import FinalOvertaken
from laurels.errors.sinks import LedgerTooNew, TargetUnavailable
from laurels.flows.ledger.reading import LedgerReader
from laurels.model.rules import RankStyle
from laurels.sql import hidden_rows, payout_rows
from laurels.sql.databases import dialect_of
from laurels.sql.dialects import Dialect
from laurels.sql.final_erasing import FinalEraser
from laurels.sql.final_reading import FinalRanking, FinalReader
from laurels.sql.final_tables import FinalTables
from laurels.sql.final_writing import FinalWriter, PeriodWriter
from laurels.sql.making import make_tables
from laurels.sql.tables import VERSION, Tables
from laurels.stores.local.archive.segment import ArchivedPeriod
from tests.archive.standings import archived, frozen, rank_in, rows_of

from .sinking import rows

DAY_MS = 86_400_000
BOARD = laurels.Board(
    "b", windows=["all", "day:archive=forever"], scopes=[[], ["room"]], rank_by=["room"]
)
STYLES = get_args(RankStyle)


class Ledger:
    """The tables of sealed periods of one ledger."""

    def __init__(self, dialect: Dialect, prefix: str, connection: Any) -> None:
        self.dialect, self.prefix, self.connection = dialect, prefix, connection
        self.writer = FinalWriter(dialect, prefix, connection)
        self.reader = FinalReader(dialect, prefix, connection)

    def begin(self, period: ArchivedPeriod, revision: int = 0) -> PeriodWriter:
        return self.writer.begin(
            revision_of(period, revision), BOARD.name, BOARD.to_json(), BOARD.rules(), 5
        )

    def write(self, period: ArchivedPeriod, revision: int = 0) -> None:
        writer = self.begin(period, revision)
        writer.add([*period.pieces()])
        writer.complete()
        self.connection.commit()

    def ranking(self, scope: str = "", revision: int | None = None) -> FinalRanking:
        period = self.reader.period("uid", "day", DAY_MS, revision)
        assert period is not None
        ranking = self.reader.ranking(period, scope)
        assert ranking is not None
        return ranking


@contextmanager
def opened(url: str) -> Iterator[Ledger]:
    dialect, prefix = dialect_of(url)
    with dialect.errors(), closing(dialect.connect()) as connection:
        make_tables(dialect, prefix, connection)
        connection.commit()
        yield Ledger(dialect, prefix, connection)


def revision_of(period: ArchivedPeriod, revision: int = 0) -> SealedRevision:
    record = period.record
    seal = SealedPeriod(9, record.entries, record.digest, revision, True, (b"h\0",), '{"list":[]}')
    return SealedRevision("uid", "day", DAY_MS, revision, seal)


def test_several_connections_make_the_tables_at_once(url: str) -> None:
    together = Barrier(8)

    def make(_: int) -> None:
        together.wait()
        with opened(url):
            pass

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(make, range(8)))
    with opened(url) as ledger:
        ledger.write(archived(frozen(rows_of(10, 1))))
        assert len(ledger.ranking()) == 10


def test_one_connection_at_a_time_makes_the_tables_of_a_file(tmp_path: Path) -> None:
    dialect, prefix = dialect_of(f"sqlite:///{tmp_path}/ledger.db")
    with closing(dialect.connect()) as first, closing(dialect.connect(seconds=0)) as second:
        with (
            dialect.schema_locked(first, prefix),
            pytest.raises(TargetUnavailable),
            dialect.errors(),
        ):
            make_tables(dialect, prefix, second)
        make_tables(dialect, prefix, second)


@pytest.mark.parametrize("style", STYLES)
def test_a_ranking_answers_what_the_archive_of_a_folder_answers(url: str, style: RankStyle) -> None:
    entries = rows_of(3_000, 3, words=3)
    period = archived(frozen(entries, style=style))
    local = period.ranking("")
    assert local is not None
    with opened(url) as ledger:
        ledger.write(period)
        ranking = ledger.ranking()
        assert len(ranking) == 3_000
        places = random.Random(1).sample(range(3_000), 40)
        members = [entries[place].member.decode() for place in places]
        for whole in (True, False):
            located = ranking.locate([*members, "nobody"], whole=whole)
            expected = local.locate([*members, "nobody"], whole=whole)
            assert [*located.positions] == [*expected.positions]
            assert [*located.ranks] == [*expected.ranks]
            assert located.words == expected.words
        for place, member in zip(places[:10], members, strict=False):
            assert ranking.position(member.encode()) == place
            assert ranking.rank(member.encode()) == rank_in(entries, place, style)
            assert ranking.neighbourhood(member) is not None
        assert ranking.position(b"nobody") == ranking.rank(b"nobody") == -1
        assert ranking.neighbourhood("nobody") is None
        for start, stop in ((0, 10), (2_995, 3_100), (5_000, 5_001), (40, 40), (-3, 2)):
            page, expected_page = ranking.slice(start, stop), local.slice(start, stop)
            assert page.members == expected_page.members
            assert [*page.ranks] == [*expected_page.ranks]
            if page.members:
                assert [[*c] for c in page.words] == [[*c] for c in expected_page.words]


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 3_000])
def test_a_bound_is_found_among_entries(url: str, size: int) -> None:
    entries = rows_of(size, size)
    with opened(url) as ledger:
        ledger.write(archived(frozen(entries)))
        ranking = ledger.ranking()
        keys = [(row.words, row.member) for row in entries]
        chance = random.Random(2)
        for at in chance.sample(range(size), min(size, 12)):
            words, member = keys[at]
            for right in (True, False):
                find = bisect_right if right else bisect_left
                assert ranking.bound(words, member, right=right) == find(keys, (words, member))
                scores = [row.words[0] for row in entries]
                assert ranking.bound(words[:1], right=right) == find(scores, words[0])
        assert ranking.bound((-1_000,), right=False) == 0
        assert ranking.bound((1_000,), right=True) == size


def test_a_period_has_all_its_scopes_and_proves_its_digest(url: str) -> None:
    scopes = ["", "@room", "room=a", "room=%2C%00\\", f"room={'x' * 400}"]
    period = archived(
        *[frozen(rows_of(20 + i, i), scope) for i, scope in enumerate(sorted(scopes))]
    )
    with opened(url) as ledger:
        ledger.write(period)
        found = ledger.reader.period("uid", "day", DAY_MS)
        assert found is not None
        assert [each.form.scope for each in ledger.reader.rankings(found)] == sorted(scopes)
        for i, scope in enumerate(sorted(scopes)):
            assert len(ledger.ranking(scope)) == 20 + i
        assert ledger.reader.ranking(found, "room=b") is None
        digest = DigestOfPieces()
        for piece in ledger.reader.pieces(found):
            digest.add(piece)
        assert digest.digest() == period.record.digest == found.revision.seal.digest
        assert digest.entries == period.record.entries
        assert found.revision == revision_of(period)
        assert (found.board, found.definition) == ("b", BOARD.to_json())


def test_the_view_shows_standings_as_users_count_them(url: str) -> None:
    entries = rows_of(12, 4)
    with opened(url) as ledger:
        ledger.write(archived(frozen(entries, style="competition")))
    shown = rows(
        url,
        "SELECT position, rank_number, member, score_1, reached_at, revision, is_current "
        f"FROM {ledger.prefix}final_standings "
        "WHERE board = 'b' AND window_name = 'day' AND period = '1970-01-02' AND scope = '' "
        "ORDER BY position",
    )
    ranks = [rank_in(entries, at, "competition") + 1 for at in range(12)]
    assert [[row[2], *map(int, row[:2] + row[3:])] for row in shown] == [
        [row.member.decode(), at, rank, -row.words[0], row.words[1], 0, 1]
        for at, (rank, row) in enumerate(zip(ranks, entries, strict=True), 1)
    ]


def test_a_period_is_whole_or_absent(url: str) -> None:
    period = archived(frozen(rows_of(900, 1)), frozen(rows_of(50, 2), "room=a"))
    pieces = [*period.pieces()]
    with opened(url) as ledger:
        interrupted = ledger.begin(period)
        interrupted.add(pieces[:2])
        ledger.connection.commit()
        assert ledger.reader.period("uid", "day", DAY_MS) is None
        assert ledger.reader.periods("uid") == []
        table = f"{ledger.prefix}final_standings"
        assert rows(url, f"SELECT * FROM {table}") == []
        ledger.write(period)
        assert len(rows(url, f"SELECT * FROM {table}")) == 950
        assert len(rows(url, f"SELECT * FROM {ledger.prefix}final_entries")) == 950
        with pytest.raises(FinalOvertaken):
            interrupted.hold()
        with pytest.raises(FinalOvertaken):
            interrupted.complete()


def test_revisions_stay_readable(url: str) -> None:
    first, second = archived(frozen(rows_of(30, 1))), archived(frozen(rows_of(29, 2)))
    with opened(url) as ledger:
        ledger.write(first)
        ledger.write(second, revision=1)
        assert len(ledger.ranking()) == len(ledger.ranking(revision=1)) == 29
        assert len(ledger.ranking(revision=0)) == 30
        assert [(p.revision.revision, p.is_current) for p in ledger.reader.periods("uid")] == [
            (0, False),
            (1, True),
        ]
        ledger.write(first)  # written a second time, as after a restart of the sink
        assert len(ledger.ranking()) == 29
        ledger.writer.remove("uid", "day", DAY_MS)
        ledger.connection.commit()
        for table in ("final_periods", "final_rankings", "final_entries"):
            assert rows(url, f"SELECT * FROM {ledger.prefix}{table}") == []


def test_payouts_and_hidden_members_are_stored_exactly(url: str) -> None:
    payouts = [
        PayoutRow("uid/day/x//m/gold/0", "uid", "b", "day", 5, "x", 0, "room=%2C\\", "m\0", "gold",
                  1, 2**53 - 1, 15, b'{"a":"\\u0000"}', False, None, 6, 7),
        PayoutRow("i" * 900, "uid", "b", "day", 5, "x", 1, "", "é", "p" * 64, 2, None, 0, b"null",
                  True, "uid/day/x//m/gold/0", 6, 7, 2, "r\\ef", 8),
    ]  # fmt: skip
    hidings = [("m\0", Hiding("a bot\0", 5)), ("'", Hiding("", 5, 9))]
    with opened(url) as ledger:
        tables, dialect = FinalTables(ledger.dialect, ledger.prefix), ledger.dialect
        stored = [payout_rows.row_of_payout(each, 3) for each in payouts]
        dialect.upsert(ledger.connection, tables.name("payouts"), tables.payouts, 1, stored)
        stored = [hidden_rows.row_of_hiding("b", *each, 3) for each in hidings]
        dialect.upsert(ledger.connection, tables.name("hidden"), tables.hidden, 2, stored)
        ledger.connection.commit()
    found = rows(url, f"SELECT {payout_rows.SELECTED} FROM {ledger.prefix}payouts")
    found_payouts = {each.id: each for each in map(payout_rows.payout_of_row, found)}
    assert found_payouts == {each.id: each for each in payouts}
    found = rows(url, f"SELECT {hidden_rows.SELECTED} FROM {ledger.prefix}hidden")
    assert dict(map(hidden_rows.hiding_of_row, found)) == dict(hidings)


def test_tables_of_an_earlier_version_are_upgraded(url: str) -> None:
    dialect, prefix = dialect_of(url)
    tables = Tables(dialect, prefix)
    later = FinalTables(dialect, prefix).statements()
    with closing(dialect.connect()) as connection:
        for statement in tables.statements():
            if statement not in later:
                dialect.execute(connection, statement)
        dialect.execute(connection, f"INSERT INTO {prefix}ledger (version) VALUES (2)")
        row = ("b", "", BOARD.to_json().decode(), 1)
        dialect.upsert(connection, tables.name("boards"), tables.boards, 1, [row])
        connection.commit()
    with closing(LedgerReader(dialect, prefix)) as reader:
        reader.open()
        assert reader.boards() == ["b"]
    with opened(url) as ledger:
        ledger.write(archived(frozen(rows_of(10, 1))))
        make_tables(dialect, prefix, ledger.connection)  # the second call changes nothing
        ledger.connection.commit()
    assert rows(url, f"SELECT version FROM {prefix}ledger") == [(VERSION,)]
    assert len(rows(url, f"SELECT * FROM {prefix}final_standings")) == 10
    assert rows(url, f"SELECT board FROM {prefix}boards") == [("b",)]
    rows_written(url, f"UPDATE {prefix}ledger SET version = {VERSION + 1}")
    with pytest.raises(LedgerTooNew), opened(url):
        pass


def rows_written(url: str, statement: str) -> None:
    dialect, _ = dialect_of(url)
    with closing(dialect.connect()) as connection:
        dialect.execute(connection, statement)
        connection.commit()


@pytest.mark.parametrize("size", [1, 2, 300, 3_000])
def test_a_member_is_erased_from_every_revision_and_scope(url: str, size: int) -> None:
    entries = rows_of(size, 3)
    period = archived(frozen(entries), frozen(entries, "room=a"))
    gone = random.Random(size).sample(range(size), min(size, 5))
    with opened(url) as ledger:
        for revision in (0, 1):
            ledger.write(period, revision)
        eraser = FinalEraser(ledger.dialect, ledger.prefix, ledger.connection)
        for at in gone:
            member = entries[at].member.decode()
            assert eraser.erase("other", member, "t").periods == 0
            assert eraser.erase("uid", member, "t", [("day", label_of())]).periods == 0
            assert eraser.erase("uid", member, f"erased-{at}").periods == 2
            assert eraser.erase("uid", member, f"erased-{at}").periods == 0
        for revision in (0, 1):
            stored = ledger.reader.period("uid", "day", DAY_MS, revision)
            assert stored is not None
            digest = DigestOfPieces()
            for piece in ledger.reader.pieces(stored):
                digest.add(piece)
            assert digest.digest() == period.record.digest
            for scope in ("", "room=a"):
                ranking = ledger.ranking(scope, revision)
                assert [each.position for each in ranking.form.erased] == sorted(gone)
                assert [ranking.form.salts().slice(at, at + 1) for at in gone] == [[None]] * len(
                    gone
                )
                for at in gone:
                    assert ranking.position(entries[at].member) == -1
                    assert ranking.position(f"erased-{at}".encode()) == at
                keys = [(row.words, row.member) for row in entries]
                for at in range(0, size, max(1, size // 40)):
                    words, name = keys[at]
                    found = ranking.bound(words, name, right=True)
                    same = [i for i, key in enumerate(keys) if key[0] == words]
                    assert same[0] <= found <= same[-1] + 1
                    others = [i for i in same if i not in gone]
                    assert [i for i in others if i < found] == [i for i in others if i <= at]


def label_of() -> str:
    window = BOARD.rules().windows["day"]
    return window.period_of(DAY_MS).label
