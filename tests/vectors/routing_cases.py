"""The cases of routing: where events count."""

from __future__ import annotations

from collections.abc import Sequence

from tests.calendar_by_scanning import HOUR, MINUTE
from tests.definitions import WindowDef
from tests.oracle_forms import FIRST_MS, scope_text
from tests.vectors import plain
from tests.vectors.cases import NOW_MS, InstanceCase, NameCase, RoutingVectors, ScopeCase, ShardCase

DAY_MS = 24 * HOUR
BERLIN, TOKYO, APIA = "Europe/Berlin", "Asia/Tokyo", "Pacific/Apia"
MEMBERS = [
    *("a", "alice", "bob", "m0", "m1", "m99", "0", "-1", " ", "  a", "A", "x" * 128),
    *("é", "e\u0301", "日本", "ß", "Ω", "🏅", "👩‍🚀", "\u00ff", "\ufeff", "\u2028", "\U0010ffff"),
    *(
        "\x00",
        "\x00\x00",
        "a\x00b",
        "\x1f",
        "\x7f",
        "\n",
        "a:b",
        "{a}",
        "%41",
        "a,b",
        "@a",
        "é" * 64,
    ),
]

LABELED: list[tuple[tuple[str, ...], dict[str, str]]] = [
    ((), {}),
    ((), {"room": "1"}),
    (("room",), {}),
    (("room",), {"room": "1"}),
    (("room",), {"zone": "n"}),
    (("room",), {"room": "1", "zone": "n"}),
    (("room", "zone"), {"room": "1"}),
    (("room", "zone"), {"zone": "n", "room": "1"}),
    (("room", "zone"), {"room": "1,zone=2", "zone": "n"}),
    *[
        (("room",), {"room": value})
        for value in (
            *("a,b", "x=y", "%", "%2C", "a:b", "{}", "@room", " ", "a b", "\t", "\x00", "\x1f"),
            *("\x7f", "\x80", "é", "日本", "🏅", "+", "a/b", "a_b-c.d", "٣", "²", "x" * 128),
        )
    ],
]


def days(text: str) -> int:
    """Return a time in ms from a text with a number of days, hours and minutes, such as `2
    3:30`."""
    count, _, clock = text.partition(" ")
    hours, _, minutes = clock.partition(":")
    return int(count) * DAY_MS + int(hours or 0) * HOUR + int(minutes or 0) * MINUTE


NEW_YEAR = NOW_MS - days("14 8")  # 2027-01-01T00:00Z
SPRING_BERLIN = 1_806_195_600_000  # 2027-03-28T01:00Z: clocks in Berlin go from 2 to 3
AUTUMN_BERLIN = 1_824_944_400_000  # 2027-10-31T01:00Z: clocks in Berlin go from 3 to 2
APIA_SKIPPED = 1_325_239_200_000  # 2011-12-30T10:00Z: the 30th does not exist in Apia

ARRIVALS: list[tuple[WindowDef, Sequence[int], int]] = [
    (WindowDef("all"), [FIRST_MS, 0, NOW_MS], NOW_MS),
    *[
        (WindowDef(unit, keep=3, grace="1h"), [NOW_MS, NEW_YEAR, NEW_YEAR - 1, -1], NEW_YEAR + HOUR)
        for unit in ("hour", "day", "week", "month", "quarter", "year")
    ],
    (WindowDef("week", week_start="sunday"), [NEW_YEAR, NEW_YEAR + days("2")], NOW_MS),
    *[
        (WindowDef("day", tz=tz, grace="5m"), [at, at - 1, at - HOUR, at + HOUR], at + 6 * MINUTE)
        for tz, at in ((BERLIN, SPRING_BERLIN), (TOKYO, NEW_YEAR - 9 * HOUR), (APIA, APIA_SKIPPED))
    ],
    *[
        (WindowDef("hour", tz=BERLIN, keep=4), [at - HOUR, at - 1, at, at + HOUR], at + HOUR)
        for at in (SPRING_BERLIN, AUTUMN_BERLIN)
    ],
    (WindowDef("rolling", span="4h", step="1h"), [NOW_MS, NOW_MS - 1, NOW_MS - HOUR], NOW_MS),
    (
        WindowDef("rolling", span="4h", step="1h", grace="3h"),
        [NOW_MS - 3 * HOUR, NOW_MS - 3 * HOUR - 1, NOW_MS - 4 * HOUR],
        NOW_MS,
    ),
    (WindowDef("rolling", span="20s", step="5s"), [NOW_MS - 1, -1, NOW_MS - 5_000], NOW_MS),
    *[
        (
            WindowDef("rolling", span="6d", step="2d", tz=tz, grace="4d"),
            [at, at - 1, at - days("2"), at - days("4"), at - days("6")],
            at,
        )
        for tz, at in (("UTC", NOW_MS), (BERLIN, SPRING_BERLIN), (APIA, APIA_SKIPPED))
    ],
]

NAMES = [
    ("all", "", FIRST_MS),
    ("day", "", NEW_YEAR),
    ("day:tz=Asia/Tokyo", "", -32_400_000),
    ("rolling:7d/1h", "", 500_000),
    ("7d", "room=1", 20_833),
    ("all", "room=a%2Cb,zone=n", FIRST_MS),
    ("day", "@room", 0),
    ("day", "room=é", NEW_YEAR),
    ("decay:6h", "room=日本", FIRST_MS),
]


def routing() -> RoutingVectors:
    """Return the vectors of shards, scopes, instants and names."""
    shards = [
        ShardCase(member, count, plain.shard_of(member, count))
        for i, member in enumerate(MEMBERS)
        for count in (2, (3, 7, 16, 64)[i % 4])
    ]
    scopes = [
        ScopeCase(
            names,
            labels,
            scope_text([(name, labels[name]) for name in names])
            if all(name in labels for name in names)
            else None,
        )
        for names, labels in LABELED
    ]
    instances = []
    for window, ats, now_ms in ARRIVALS:
        for at_ms in [at for at in ats if at <= now_ms]:
            number, label, taken = plain.instance(window, at_ms, now_ms)
            instances.append(InstanceCase(window, at_ms, now_ms, number, label, taken))
    names = [NameCase(*each, plain.ranking_name(*each)) for each in NAMES]
    return RoutingVectors(
        "shards: member, number of shards, shard. scopes: labels of the scope, labels of the "
        "event, text of the scope or null. instances: window, at, now, number, label, whether "
        "it is taken. names: window, scope, number, name.",
        tuple(shards),
        tuple(scopes),
        tuple(instances),
        tuple(names),
    )
