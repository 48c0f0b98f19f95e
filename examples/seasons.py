"""An example of seasons on real data: each month at the shop CDNOW ends with prizes for the
customers who spent most.

It replays 18 months in a store in memory, with a clock of its own. At the end of a month the
standings are sealed, and payouts are made, sent to a bank on this machine, and confirmed. One
winner is disqualified after the payout, so the next in line receive what is missing, and the prize
is claimed back. Later a customer asks to be erased: a token takes its places, and the digests of
all months still verify. At the end the program computes all standings again from the file, and
compares. Run it with the Python in which laurels is installed:

    python examples/seasons.py
"""

import csv
import gzip
import json
import sys
import threading
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import groupby
from pathlib import Path

import laurels

PURCHASES = Path(__file__).with_name("cdnow.csv.gz")
PRIZES = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": "100.00", "scale": 2},
        {"name": "silver", "ranks": [2, 3], "amount": "50.00", "scale": 2},
        {"name": "best percent", "percent": 1, "data": {"badge": "disc"}},
    ],
    "pay_after": "1d",
}
CHEATED_IN = "2021-03"
"""The month whose winner turns out to be a reseller, after the prizes were paid."""
ERASED = "07592"
"""The customer who asks to be erased at the end; it has bought something in every month."""
DAY_MS = 86_400_000

Row = tuple[str, datetime, Decimal]
"""A customer, the day of a purchase, and its amount in dollars."""


def purchases() -> Iterator[Row]:
    """Yield all purchases, oldest first."""
    with gzip.open(PURCHASES, "rt") as file:
        rows = [
            (
                row["customer"],
                datetime.fromisoformat(row["date"]).replace(tzinfo=UTC),
                row["amount"],
            )
            for row in csv.DictReader(file)
        ]
    for customer, day, amount in sorted(rows, key=lambda row: row[1]):
        yield customer, day, Decimal(amount)


def milliseconds(time: datetime) -> int:
    return int(time.timestamp()) * 1_000


def month_of(row: Row) -> str:
    return f"{row[1]:%Y-%m}"


def recomputed(rows: list[Row]) -> list[tuple[str, Decimal]]:
    """Return who spent how much, most first, computed without laurels."""
    totals: defaultdict[str, Decimal] = defaultdict(Decimal)
    for customer, _, amount in rows:
        totals[customer] += amount
    return sorted(totals.items(), key=lambda item: (-item[1], item[0]))


class Bank(HTTPServer):
    """A bank that pays each payout once, however often it is asked to, since it stores the ids of
    payouts."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Transfer)
        self.paid: dict[str, Decimal] = {}
        self.cursor: str | None = None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def ask_to_pay(self, payouts: list[laurels.Payout]) -> None:
        """Send payouts to the bank over HTTP, as a sink does."""
        body = json.dumps([{"id": p.id, "amount": str(p.amount or 0)} for p in payouts])
        url = f"http://127.0.0.1:{self.server_address[1]}/"
        urllib.request.urlopen(url, body.encode()).close()


class Transfer(BaseHTTPRequestHandler):
    """A request to the bank."""

    server: Bank

    def do_POST(self) -> None:
        for payout in json.loads(self.rfile.read(int(self.headers["Content-Length"]))):
            self.server.paid.setdefault(payout["id"], Decimal(payout["amount"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def pay_what_is_due(lb: laurels.Leaderboards, bank: Bank) -> int:
    """Have the bank pay all payouts that are due, page by page, and confirm them. Return the number
    of payouts. Each page is sent twice, as after a lost answer."""
    count = 0
    while (page := lb.due_payouts(after=bank.cursor)).payouts:
        for _ in range(2):
            bank.ask_to_pay(page.payouts)
        for payout in page:
            lb.confirm("spent", payout.id, f"transfer of {payout.id}")
        bank.cursor = page.cursor
        count += len(page)
    return count


def season(
    lb: laurels.Leaderboards, bank: Bank, clock: laurels.ManualClock, month: str, rows: list[Row]
) -> None:
    """Replay one month, seal it, and pay its prizes."""
    clock.set(milliseconds(rows[-1][1]) + DAY_MS - 1)
    events = [(customer, amount, milliseconds(day)) for customer, day, amount in rows]
    lb.submit_many("spent", events)
    years, months = divmod(rows[-1][1].month, 12)
    next_month = datetime(rows[-1][1].year + years, months + 1, 1, tzinfo=UTC)
    clock.set(milliseconds(next_month) + DAY_MS)
    lb.seal()
    clock.advance(DAY_MS)
    print(f"{month}: {pay_what_is_due(lb, bank):4} payouts")


def correct(lb: laurels.Leaderboards, bank: Bank, clock: laurels.ManualClock) -> str:
    """Disqualify the winner of a month that is paid already, and show the payouts that follow."""
    winner = lb.top("spent", period=CHEATED_IN, limit=1).entries[0].member
    lb.disqualify("spent", winner, "a reseller", period=CHEATED_IN)
    clock.advance(DAY_MS)
    for payout in lb.payouts("spent", period=CHEATED_IN, state="due", limit=1_000):
        what = "taken back" if payout.withdrawn else payout.amount or payout.data
        print(f"  {payout.member} {payout.prize}: {what}")
    pay_what_is_due(lb, bank)
    return winner


def erase(lb: laurels.Leaderboards) -> str:
    """Erase a customer, and return the token that stands in its places."""
    erasure = lb.erase(ERASED, "asked for it by mail")
    print(f"a token takes the places of a customer in {erasure.periods} sealed standings")
    return erasure.token


def main() -> int:
    clock = laurels.ManualClock(milliseconds(datetime(2021, 1, 1, tzinfo=UTC)))
    months = [(month, list(rows)) for month, rows in groupby(purchases(), key=month_of)]
    with laurels.open("memory:", clock=clock) as lb, Bank() as bank:
        window = {"name": "month", "type": "month", "archive": "forever", "prizes": PRIZES}
        column = laurels.Column("dollars", scale=2)
        lb.create(laurels.Board("spent", columns=[column], tie="member", windows=[window]))
        winner = ""
        for month, rows in months:
            season(lb, bank, clock, month, rows)
            if month == CHEATED_IN:
                winner = correct(lb, bank, clock)
        token = erase(lb)
        for month, rows in months:
            expected = recomputed(rows)
            if month == CHEATED_IN:
                expected = [row for row in expected if row[0] != winner]
            expected = [(token if who == ERASED else who, spent) for who, spent in expected]
            if not lb.verify("spent", period=month).verified:
                print(f"{month}: the standings are not those that were sealed", file=sys.stderr)
                return 1
            standings = [(e.member, e.score) for e in lb.export("spent", period=month)]
            if standings != expected:
                print(f"{month}: the standings differ", file=sys.stderr)
                return 1
        paid = sum([p.amount or 0 for p in every_payout(lb)])
        bank.shutdown()
    if paid != sum(bank.paid.values()):
        print(f"the bank has paid {sum(bank.paid.values())} dollars of {paid}", file=sys.stderr)
        return 1
    print(f"{len(months)} months have the standings of a recomputation; {paid} dollars were paid")
    return 0


def every_payout(lb: laurels.Leaderboards) -> Iterator[laurels.Payout]:
    """Yield all payouts, page by page."""
    after: str | None = None
    while True:
        page = lb.payouts("spent", limit=1_000, after=after)
        yield from page
        if (after := page.next) is None:
            return


if __name__ == "__main__":
    sys.exit(main())
