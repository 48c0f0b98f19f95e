"""The example with real data, imported on the command line, gives the expected figures."""

import csv
import gzip
import io
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from examples import cdnow

import laurels
from laurels.cli import main
from tests.conftest import Scaled

from .running import Shell


class Purchase(NamedTuple):
    customer: str
    day: date
    cents: int


@pytest.fixture(scope="module")
def march(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's board with the purchases up to 31 March 2021."""
    return _folder(tmp_path_factory, cdnow.CREATE, cdnow.MARCH)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the example's board with all purchases, imported as in the example."""
    return _folder(tmp_path_factory, cdnow.CREATE, cdnow.MARCH, cdnow.IMPORT)


def _folder(tmp_path_factory: pytest.TempPathFactory, *commands: list[str]) -> Path:
    folder = tmp_path_factory.mktemp("cdnow") / "boards"
    for command in commands:
        assert main([*command, "--at", str(folder)]) == 0
    return folder


@pytest.fixture
def spent(shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("LAURELS_URL", str(folder))
    return shell


@pytest.fixture
def spent_by_march(shell: Shell, march: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("LAURELS_URL", str(march))
    return shell


@pytest.fixture(scope="module")
def purchases() -> list[Purchase]:
    text = gzip.decompress(cdnow.PURCHASES.read_bytes()).decode()
    return [
        Purchase(row["customer"], date.fromisoformat(row["date"]), _cents(row["amount"]))
        for row in csv.DictReader(io.StringIO(text))
    ]


def _cents(amount: object) -> int:
    return int(Decimal(str(amount)) * 100)


def _exported(spent: Shell, *options: str) -> list[tuple[str, int]]:
    out = spent.ok("export", "spent", "--format", "jsonl", *options).out
    decoder = msgspec.json.Decoder(float_hook=Decimal)
    entries = [decoder.decode(line) for line in out.splitlines()]
    assert [entry["rank"] for entry in entries] == list(range(1, len(entries) + 1))
    return [(entry["member"], _cents(entry["score"])) for entry in entries]


def _ranked(purchases: list[Purchase]) -> list[tuple[str, int]]:
    totals: Counter[str] = Counter()
    for purchase in purchases:
        totals[purchase.customer] += purchase.cents
    return sorted(totals.items(), key=lambda entry: (-entry[1], entry[0]))


def test_the_ranking_of_all_time_has_the_expected_entries(spent: Shell) -> None:
    entries = _exported(spent)
    assert len(entries) == 23_544
    assert entries[:5] == [
        ("07592", 1_399_093),
        ("14048", 897_633),
        ("07983", 697_307),
        ("19339", 655_270),
        ("07931", 649_718),
    ]


def test_the_ranking_of_february_2021_has_the_expected_entries(spent: Shell) -> None:
    entries = _exported(spent, "--window", "month", "--period", "2021-02")
    assert len(entries) == 9_632
    assert entries[:5] == [
        ("14894", 161_918),
        ("07592", 125_480),
        ("12304", 113_415),
        ("07983", 101_458),
        ("08529", 84_623),
    ]


def test_the_last_7_days_on_31_march_2021_have_the_expected_entries(spent_by_march: Shell) -> None:
    top = spent_by_march.json(*cdnow.LAST_7_DAYS)
    assert (top["as_of"]["period"], top["total"]) == ("2021-03-31", 1_081)
    entries = _exported(spent_by_march, "--window", "7d")
    assert len(entries) == 1_081
    assert entries[:5] == [
        ("19339", 151_917),
        ("23251", 37_400),
        ("15953", 37_256),
        ("19038", 35_656),
        ("07592", 29_952),
    ]


def test_the_last_30_days_on_30_june_2022_have_the_expected_entries(spent: Shell) -> None:
    assert spent.json("top", "spent", "--window", "30d")["as_of"]["period"] == "2022-06-30"
    entries = _exported(spent, "--window", "30d")
    assert len(entries) == 1_506
    assert entries[:5] == [
        ("07592", 172_680),
        ("08830", 128_601),
        ("10197", 58_763),
        ("14048", 53_473),
        ("00499", 51_173),
    ]


def test_rolling_windows_equal_recomputed_rankings(
    folder: Path, purchases: list[Purchase], scaled: Scaled
) -> None:
    """The rankings are compared only on some days. The time between two of these days is shorter
    than the window, so each purchase is in the window on at least one of them."""
    apart = scaled(6, 1)
    with laurels.open(str(folder), create=False) as lb:
        board = lb.get("spent")
    by_day: dict[date, list[Purchase]] = {}
    for purchase in purchases:
        by_day.setdefault(purchase.day, []).append(purchase)
    with laurels.open("memory:", clock="event") as lb:
        lb.create(board)
        for number, day in enumerate(sorted(by_day)):
            lb.submit_many("spent", map(_event, by_day[day]))
            if number % apart:
                continue
            for window, days in (("7d", 7), ("30d", 30)):
                last = [day - timedelta(days=ago) for ago in range(days)]
                expected = _ranked([p for each in last for p in by_day.get(each, [])])
                (period,) = lb.periods("spent", window)
                assert (period.label, period.total) == (day.isoformat(), len(expected))
                entries = lb.export("spent", window=window)
                assert [(entry.member, entry.score) for entry in entries] == [
                    (customer, Decimal(cents).scaleb(-2)) for customer, cents in expected
                ]
    assert len(by_day) == (date(2022, 6, 30) - date(2021, 1, 1)).days + 1


def _event(purchase: Purchase) -> tuple[str, Decimal, datetime]:
    noon = datetime(purchase.day.year, purchase.day.month, purchase.day.day, 12, tzinfo=UTC)
    return purchase.customer, Decimal(purchase.cents) / 100, noon


def test_the_ranking_of_all_time_equals_the_recomputed_one(
    spent: Shell, purchases: list[Purchase]
) -> None:
    assert _exported(spent) == _ranked(purchases)


@pytest.mark.parametrize(("window", "label_form"), [("month", "%Y-%m"), ("week", "%G-W%V")])
def test_every_period_equals_the_recomputed_one(
    folder: Path, purchases: list[Purchase], window: str, label_form: str
) -> None:
    periods: dict[str, list[Purchase]] = {}
    for purchase in purchases:
        periods.setdefault(purchase.day.strftime(label_form), []).append(purchase)
    with laurels.open(str(folder), create=False) as lb:
        assert sorted(kept.label for kept in lb.periods("spent", window)) == sorted(periods)
        for label, totals in periods.items():
            entries = lb.export("spent", window=window, period=label)
            assert [(entry.member, _cents(entry.score)) for entry in entries] == _ranked(totals)


def test_current_periods_are_those_of_the_last_purchase(spent: Shell) -> None:
    assert spent.json("top", "spent", "--window", "month")["as_of"]["period"] == "2022-06"
    assert spent.json("top", "spent", "--window", "week")["as_of"]["period"] == "2022-W26"


def test_importing_again_counts_nothing(spent: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(cdnow.__file__).parent.parent)
    spent.ok(*cdnow.CREATE)
    (figures,) = spent.json(*cdnow.IMPORT)["files"]
    assert (figures["lines"], figures["resumed_after"]) == (0, 69_660)
    assert _exported(spent)[0] == ("07592", 1_399_093)


def test_the_example_asks_questions_that_have_answers(spent: Shell) -> None:
    for question in cdnow.QUESTIONS:
        assert spent.ok(*question).out


def test_check_passes(spent: Shell) -> None:
    assert spent.json("check")["boards"] == 1
