"""Erase a member from the sealed periods and payouts of a board in a ledger.

A token takes the place of the member. For each of the member's entries, the hash is stored beside
the ranking, and the salt is forgotten. So the digest of the period can still be computed, but the
member cannot be found from the hash.
"""

from collections.abc import Collection, Iterator
from typing import Any

from msgspec import Struct

from laurels.core.digest import ErasedEntry, Salts, hashes_from
from laurels.core.entry_columns import EntryColumns
from laurels.core.payouts import PayoutRow, payout_id
from laurels.model.labels import is_by

from .dialects import Dialect, Row
from .final_periods import without_hidden
from .final_tables import WORDS, FinalTables
from .payout_rows import SELECTED, payout_key, payout_of_row
from .salts_text import decode_salts, encode_salts
from .texts import escape

AT_ONCE = 500
"""The number of rankings in which a member is looked up in one statement."""
_WORDS = ", ".join([f"word_{i + 1}" for i in range(WORDS)])

PeriodName = tuple[str, str]
"""The window and the label of a period."""


class ErasedFinals(Struct, frozen=True):
    """From how much a member was erased: the number of sealed periods in which the member was
    ranked, with each revision counted, and the number of the member's payouts."""

    periods: int
    payouts: int


class FinalEraser:
    """Erases members over a connection, in the transactions of its caller. Every method may
    block."""

    def __init__(self, dialect: Dialect, prefix: str, connection: Any) -> None:
        self._dialect = dialect
        self._name = FinalTables(dialect, prefix).name
        self._connection = connection

    def has(self, uid: str, member: str) -> bool:
        """Return whether a member is ranked in a sealed period of a board. O(rankings)."""
        numbers = self._rows(
            f"SELECT number FROM {self._name('final_periods')} WHERE uid = %s", uid
        )
        return any(next(self._entries(number, member), None) for (number,) in numbers)

    def open_payouts(self, uid: str, member: str, kept: Collection[PeriodName]) -> int:
        """Return how many payouts of a member on a board are neither confirmed nor superseded,
        not counting those of the periods in `kept`."""
        return len([each for each in self._payouts(uid, member, kept) if _is_open(each)])

    def erase(
        self,
        uid: str,
        member: str,
        token: str,
        kept: Collection[PeriodName] = (),
        *,
        is_listed: bool = False,
    ) -> ErasedFinals:
        """Erase a member from the sealed periods of a board, in all revisions, and from its
        payouts, except those in `kept` and their payouts. With `is_listed`, the changed ids of
        payouts are also put in the table `payout_list`. A second call changes nothing. O(rankings +
        payouts of all boards)."""
        periods = 0
        for number, window, period, seal in self._rows(
            f"SELECT number, window_name, period, seal FROM {self._name('final_periods')} "
            "WHERE uid = %s",
            uid,
        ):
            if (window, period) in kept:
                continue
            if (changed := without_hidden(seal, member)) != seal:
                self._execute(
                    f"UPDATE {self._name('final_periods')} SET seal = %s WHERE number = %s",
                    *(changed, number),
                )
            found = list(self._entries(number, member))
            for ranking, position, words in found:
                self._erase_entry(ranking, position, words, member, token)
            periods += bool(found)
        new_ids = self._erase_payouts(uid, member, token, kept)
        for old, new in new_ids.items() if is_listed else ():
            self._execute(
                f"UPDATE {self._name('payout_list')} SET payout = %s, is_erased = 1 "
                "WHERE payout = %s",
                *(payout_key(new), payout_key(old)),
            )
        return ErasedFinals(periods, len(new_ids))

    def _entries(self, number: int, member: str) -> Iterator[tuple[int, int, list[int]]]:
        """Yield the entries of a member in a period: the ranking, the position (counted from 1) and
        the words. Rankings by a label are left out, since their entries are values of the label."""
        rows = self._rows(
            f"SELECT ranking, full_scope FROM {self._name('final_rankings')} WHERE number = %s",
            number,
        )
        rankings = [ranking for ranking, scope in rows if not is_by(scope)]
        for start in range(0, len(rankings), AT_ONCE):
            chosen = rankings[start : start + AT_ONCE]
            for ranking, position, *words in self._rows(
                f"SELECT ranking, position, {_WORDS} FROM {self._name('final_entries')} "
                f"WHERE ranking IN ({', '.join(['%s'] * len(chosen))}) AND member = %s",
                *(*chosen, escape(member)),
            ):
                yield ranking, position, [word for word in words if word is not None]

    def _erase_entry(
        self, ranking: int, position: int, words: list[int], member: str, token: str
    ) -> None:
        """Put a token in the place of a member, and forget the salt of the entry."""
        table, at = self._name("final_rankings"), position - 1
        [(total, text)] = self._rows(
            f"SELECT total, salts FROM {table} WHERE ranking = %s", ranking
        )
        secrets, erased = decode_salts(text)
        salts = Salts({(level, number): secret for level, number, secret in secrets})
        entry = EntryColumns.of([member.encode()], [[word] for word in words])
        hashed = hashes_from(salts, at, entry)
        erased = sorted([*erased, ErasedEntry(at, hashed, token)], key=lambda each: each.position)
        left = salts.without(at, int(total)).secrets
        nodes = [(level, number, secret) for (level, number), secret in sorted(left.items())]
        self._execute(
            f"UPDATE {table} SET salts = %s WHERE ranking = %s",
            *(encode_salts(nodes, erased), ranking),
        )
        self._execute(
            f"UPDATE {self._name('final_entries')} SET member = %s "
            "WHERE ranking = %s AND position = %s",
            *(token, ranking, position),
        )

    def _erase_payouts(
        self, uid: str, member: str, token: str, kept: Collection[PeriodName]
    ) -> dict[str, str]:
        """Put a token in the place of a member in payouts and their ids. If the ledger already has
        a payout with the token, because it was written again after the erasure, remove the same
        payout with the member. Return the new ids by the old ones."""
        table = self._name("payouts")
        payouts = self._payouts(uid, member, kept)
        new_ids = {payout.id: _id_with(payout, token) for payout in payouts}
        for payout in payouts:
            old, new = payout_key(payout.id), payout_key(new_ids[payout.id])
            if self._rows(f"SELECT 1 FROM {table} WHERE payout = %s", new):
                self._execute(f"DELETE FROM {table} WHERE payout = %s", old)
                continue
            corrects = payout.corrects and new_ids.get(payout.corrects, payout.corrects)
            self._execute(
                f"UPDATE {table} SET payout = %s, id = %s, member = %s, corrects = %s "
                "WHERE payout = %s",
                *(new, escape(new_ids[payout.id]), token),
                *(corrects and escape(corrects), old),
            )
        return new_ids

    def _payouts(self, uid: str, member: str, kept: Collection[PeriodName]) -> list[PayoutRow]:
        """Return the payouts of a member on a board, without those of the periods in `kept`."""
        rows = self._rows(
            f"SELECT {SELECTED} FROM {self._name('payouts')} WHERE uid = %s AND member = %s",
            *(uid, escape(member)),
        )
        payouts = map(payout_of_row, rows)
        return [each for each in payouts if (each.window, each.period) not in kept]

    def _rows(self, statement: str, *row: Any) -> list[Row]:
        return list(self._execute(statement, *row).fetchall())

    def _execute(self, statement: str, *row: Any) -> Any:
        return self._dialect.execute(self._connection, statement, row)


def _is_open(payout: PayoutRow) -> bool:
    return payout.reference is None and payout.superseded is None


def _id_with(payout: PayoutRow, member: str) -> str:
    """Return the id that a payout would have if it were a payout of `member`."""
    parts = payout.uid, payout.window, payout.period, payout.scope
    return payout_id(*parts, member, payout.prize, payout.revision)
