"""How a batch of events is written to a log record, and read from it. The columns are little-endian
integers of as few bytes as possible."""

from array import array
from collections.abc import Mapping

from laurels.engine.batch.packing import differences, pack, unpack
from laurels.model.batch import Batch
from laurels.model.labels import Labels, Values
from laurels.model.windows.weighing import Weighing, Weights

from .record import Events, JudgedEvents


def events_of(batch: Batch, version: int) -> Events:
    """Return the log record of a batch."""
    ages = None
    if batch.ats is not None:
        ages = pack(differences(batch.now_ms, batch.ats))
    lag = {} if batch.judged_ms is None else {"lag_ms": batch.now_ms - batch.judged_ms}
    return (JudgedEvents if lag else Events)(
        board=batch.board,
        version=version,
        now_ms=batch.now_ms,
        size=batch.size,
        members=batch.members,
        lengths=batch.lengths,
        values=list(map(pack, batch.values)),
        ages=ages,
        ids=batch.ids,
        absolute=batch.absolute,
        atomic=batch.atomic,
        position=batch.position,
        weights=_encode_weights(batch.weights) if batch.weights else {},
        labels=None if batch.labels is None else _encode_labels(batch.labels),
        waits=None if batch.nows is None else _waits(batch, batch.nows),
        tag=batch.tag,
        **lag,
    )


def logged_batch(record: Events) -> Batch:
    """Return the batch in a log record."""
    ats = None
    if record.ages is not None:
        ats = differences(record.now_ms, unpack(record.ages, record.size))
    return Batch(
        board=record.board,
        now_ms=record.now_ms,
        size=record.size,
        members=record.members,
        lengths=record.lengths,
        values=tuple(unpack(column, record.size) for column in record.values),
        ats=ats,
        ids=record.ids,
        absolute=record.absolute,
        atomic=record.atomic,
        position=record.position,
        weights=_weights(record, ats),
        labels=_labels(record),
        nows=None
        if record.waits is None
        else differences(record.now_ms, unpack(record.waits, record.size)),
        tag=record.tag,
        judged_ms=record.now_ms - record.lag_ms if isinstance(record, JudgedEvents) else None,
    )


def _waits(batch: Batch, nows: "array[int]") -> bytes | None:
    """Return how long before the batch's `now_ms` each event was accepted. None if these times have
    no effect, as without event ids, or if all events were accepted at `now_ms`."""
    if batch.ids is None or nows[0] == batch.now_ms:
        return None
    return pack(differences(batch.now_ms, nows))


def _encode_labels(labels: Labels) -> tuple[tuple[str, ...], tuple[Values, ...], bytes]:
    return labels.names, labels.groups, pack(labels.each)


def _labels(record: Events) -> Labels | None:
    if record.labels is None:
        return None
    names, groups, each = record.labels
    return Labels(names, groups, unpack(each, record.size))


def _encode_weights(weights: Mapping[Weighing, Weights]) -> dict[int, bytes]:
    encoded: dict[int, bytes] = {}
    for weighing, each in weights.items():
        mantissas = each.mantissas
        column = array("q", [mantissas]) if isinstance(mantissas, int) else mantissas
        encoded[weighing.half_life_ms] = pack(column)
    return encoded


def _weights(record: Events, ats: "array[int] | None") -> dict[Weighing, Weights]:
    """Return the weights in a log record."""
    weights: dict[Weighing, Weights] = {}
    for half_life_ms, packed in record.weights.items():
        weighing = Weighing(half_life_ms)
        if ats is None:
            weights[weighing] = weighing.restored(record.now_ms, unpack(packed, 1)[0])
        else:
            weights[weighing] = weighing.restored(ats, unpack(packed, record.size))
    return weights
