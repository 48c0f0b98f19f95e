"""The report of a source that has run."""

from typing import Any

from laurels.cli.show import complain, put_json, put_line
from laurels.flows.sources.metrics import SourceMetrics
from laurels.flows.sources.opening import OpenedRejects
from laurels.flows.sources.reader import StreamReader
from laurels.flows.sources.rejects_subject import SubjectRejects


def put_report(
    name: str, reader: StreamReader, metrics: SourceMetrics, rejects: OpenedRejects, *, json: bool
) -> None:
    """Print the counts of a source, and warnings about messages that it did not count."""
    if metrics.rejected:
        reasons = ", ".join(f"{count:,} {code}" for code, count in metrics.reasons.most_common())
        complain(f"{metrics.rejected:,} messages rejected ({reasons}): {rejects.address}")
    if metrics.unknown:
        names = ", ".join(board for board, _ in metrics.unknown_boards.most_common(5))
        complain(f"{metrics.unknown:,} messages for boards that do not exist: {names}")
    if metrics.late:
        late = ", ".join(f"{count:,} for {window}" for window, count in metrics.late.items())
        complain(f"some events were too late: {late}")
    if metrics.recounted:
        complain(f"{metrics.recounted:,} events counted again in shards that had lost them")
    if json:
        put_json(_document(name, reader, metrics, rejects))
    else:
        put_line(
            f"{name}: {metrics.read:,} messages: {metrics.applied:,} applied, "
            f"{metrics.unchanged:,} unchanged, {metrics.duplicates:,} duplicates, "
            f"{metrics.rejected:,} rejected, {metrics.foreign + metrics.unknown:,} for other "
            f"boards, {metrics.repeated:,} counted before; at position {metrics.position}"
        )


def _document(
    name: str, reader: StreamReader, metrics: SourceMetrics, rejects: OpenedRejects
) -> dict[str, Any]:
    address = rejects.address if metrics.rejected else None
    is_subject = isinstance(rejects, SubjectRejects)
    return {
        "source": name,
        "stream": reader.name,
        "position": metrics.position,
        "read": metrics.read,
        "recounted": metrics.recounted,
        "applied": metrics.applied,
        "unchanged": metrics.unchanged,
        "duplicates": metrics.duplicates,
        "rejected": metrics.rejected,
        "foreign": metrics.foreign,
        "unknown": metrics.unknown,
        "repeated": metrics.repeated,
        "late": dict(metrics.late),
        "reasons": dict(metrics.reasons),
        "unknown_boards": dict(metrics.unknown_boards),
        "rejects_file": address if not is_subject else None,
        "rejects_subject": address if is_subject else None,
    }
