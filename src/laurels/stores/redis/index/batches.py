"""Encodes a batch and its plan for the script that counts.

On a board with scopes a batch counts in many rankings, with few of its events in each of them. So
the payload lists the members of each scope, and the script reads and writes only these members
there.
"""

from array import array
from collections.abc import Mapping, Sequence
from operator import neg
from typing import Any

from laurels.core.plan import Plan
from laurels.model.batch import Batch
from laurels.model.labels import Labels
from laurels.model.rules import RankingSpec
from laurels.model.score import stamps_of
from laurels.model.windows.weighing import Weighing
from laurels.stores.redis.remote import PositionWrite

from .coding import BoardEncoding, encode_rolling_state
from .sums import Sums, sums_of


def encode_batch(
    encoding: BoardEncoding, batch: Batch, plan: Plan, *, added_up: bool = False
) -> tuple[dict[str, Any], Sums | None]:
    """Encode a batch and its plan for `count.lua`. Each member is listed once. With `added_up`,
    encode sums instead of events if sums suffice, and return these sums as well."""
    rules = encoding.rules
    ats = batch.now_ms if batch.ats is None else batch.ats
    stamps = stamps_of(ats, rules.resolution_ms)
    slots: dict[bytes, int] = {}
    event_members = [slots.setdefault(member, len(slots)) for member in batch.member_list()]
    arguments: dict[str, Any] = {
        "now": batch.now_ms,
        "rolling": [
            encode_rolling_state(roll)
            for spec, roll in zip(plan.specs, plan.rolling, strict=True)
            if roll is not None and not spec.name
        ],
        "windows": [_window(encoding, batch, plan, i) for i in range(len(plan.specs))],
        "members": [member.decode() for member in slots],
        "atomic": batch.atomic,
        "forget": rules.dedupe_ms,
    }
    sums = sums_of(rules, batch, plan, event_members, len(slots), stamps) if added_up else None
    if sums is not None:
        arguments |= sums.encode()
    else:
        arguments |= _encode_events(encoding, batch, plan, stamps)
        numbers = [slot + 1 for slot in event_members]
        if len(slots) < batch.size:
            arguments["event_members"] = numbers
        if rules.scoped and batch.labels is not None:
            return arguments | _in_scopes(plan, batch.labels, numbers, arguments["windows"]), None
    positions = {spec.window: i + 1 for i, spec in enumerate(plan.specs) if not spec.name}
    arguments["targets"] = [[positions[t.key.window], t.key.instance] for t in plan.targets]
    arguments["routes"] = [
        route + 1 if isinstance(route, int) else [each + 1 for each in route]
        for route in plan.routes
    ]
    return arguments, sums


def _encode_events(
    encoding: BoardEncoding, batch: Batch, plan: Plan, stamps: "array[int] | int"
) -> dict[str, Any]:
    """Encode each event of a batch, without its member."""
    arguments: dict[str, Any] = {
        "values": [
            list(column) if rule.sign > 0 else list(map(neg, column))
            for rule, column in zip(encoding.rules.columns, batch.values, strict=True)
        ],
        "ats": batch.now_ms if batch.ats is None else list(batch.ats),
        "stamps": stamps if isinstance(stamps, int) else list(stamps),
        "late": [event + 1 for event in plan.late],
        "absolute": batch.absolute,
        "all": plan.all_window + 1,
    }
    if batch.absolute and encoding.rules.totals is not None:
        arguments["totals"] = encoding.rules.totals
    if batch.ids is not None:
        arguments["ids"] = [False if id is None else id.decode() for id in batch.ids]
        if batch.nows is not None:
            arguments["nows"] = list(batch.nows)
    return arguments


def _window(encoding: BoardEncoding, batch: Batch, plan: Plan, i: int) -> dict[str, Any]:
    roll, window = plan.rolling[i], plan.specs[i].window
    if roll is None:
        return {"name": window, "steps": 0} | _weights(batch, encoding.rules.weighing(window))
    lows, highs = encoding.steps[window]
    return {**encode_rolling_state(roll), "lows": lows, "highs": highs}


def _weights(batch: Batch, weighing: Weighing | None) -> dict[str, Any]:
    """Encode the weights of the events in a window with decay."""
    if weighing is None:
        return {}
    weights = batch.weights_in(weighing)
    fields = {"exponents": weights.exponents, "mantissas": weights.mantissas}
    return {key: each if isinstance(each, int) else list(each) for key, each in fields.items()}


def _in_scopes(
    plan: Plan, labels: Labels, event_members: Sequence[int], windows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Encode the scopes of a batch, the members in each scope, and the targets of the plan in which
    any event counts.

    `windows` has an item for each ranking spec. In the item of a spec for scopes, set `form` to the
    number of the form of these scopes."""
    scopes = _Scopes(labels, event_members)
    for spec, window in zip(plan.specs, windows, strict=True):
        if spec.name:
            window["form"] = scopes.form(spec)
    used: set[int] = set()
    for route in plan.routes:
        used.update([route] if isinstance(route, int) else route)
    kept = sorted(index for index in used if index >= 0)
    numbers = {(spec.window, spec.name): i + 1 for i, spec in enumerate(plan.specs)}
    targets = []
    for index in kept:
        key = plan.targets[index].key
        form, number = scopes.scope(key.scope)
        target = [numbers[key.window, form], key.instance]
        targets.append([*target, number] if number else target)
    number_of = {index: i + 1 for i, index in enumerate(kept)}
    return {
        "scopes": scopes.scopes,
        "forms": scopes.forms,
        "targets": targets,
        "routes": [
            number_of.get(route, 0)
            if isinstance(route, int)
            else [number_of.get(index, 0) for index in route]
            for route in plan.routes
        ],
    }


class _Scopes:
    """The encoded scopes of a batch and their forms, numbered from 1."""

    def __init__(self, labels: Labels, event_members: Sequence[int]) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.forms: list[dict[str, Any]] = []
        self._labels = labels
        self._event_members = event_members
        self._forms: dict[str, int] = {}
        self._numbers: dict[str, tuple[str, int]] = {"": ("", 0)}

    def scope(self, text: str) -> tuple[str, int]:
        """Return the form of a scope, and the number of the scope. The scope of all events has the
        number 0."""
        return self._numbers[text]

    def form(self, spec: RankingSpec) -> int:
        """Return the number of the form of the scopes for which a ranking spec has rankings. If the
        form is new, also encode it and its scopes."""
        if (number := self._forms.get(spec.name)) is not None:
            return number
        number = self._forms[spec.name] = len(self._forms) + 1
        slots: dict[str, dict[Any, int]] = {}
        of_group = {
            group: None if text is None else slots.setdefault(text, {})
            for group, text in self._labels.scopes(spec).items()
        }
        self.forms.append({"name": spec.name, "event_members": self._members_of(spec, of_group)})
        for text, own in slots.items():
            self.scopes.append(
                {"name": text, "form": number, ("names" if spec.by else "slots"): list(own)}
            )
            self._numbers[text] = spec.name, len(self.scopes)
        return number

    def _members_of(
        self, spec: RankingSpec, of_group: Mapping[int, dict[Any, int] | None]
    ) -> list[int]:
        """Return for each event the index of its member among the members of its scope, counted
        from 1. The index of an event in no scope is 0."""
        each: array[int] = self._labels.each
        if spec.by:
            values = self._labels.values(spec.by)
            by_group = {
                group: 0 if own is None else own.setdefault(values[group], len(own) + 1)
                for group, own in of_group.items()
            }
            return [by_group[group] for group in each]
        indexes = []
        for group, slot in zip(each, self._event_members, strict=True):
            own = of_group[group]
            indexes.append(0 if own is None else own.setdefault(slot, len(own) + 1))
        return indexes


def positions_of(batch: Batch) -> PositionWrite | None:
    """Return the position that is stored together with a batch; None if the batch has none."""
    if batch.position is None:
        return None
    source, text = batch.position
    follows = {} if batch.follows is None else {source: batch.follows}
    return PositionWrite({source: text}, follows)


def encode_positions(write: PositionWrite) -> dict[str, Any]:
    """Encode positions for the scripts, as flat lists."""
    return {
        "position": [part for each in write.stores.items() for part in each],
        "follows": [part for each in write.follows.items() for part in each],
    }
