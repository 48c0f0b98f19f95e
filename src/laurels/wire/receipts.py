"""The receipts of a batch, decoded from the answer of a service."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from laurels.core.index import Offset
from laurels.core.receipt import Receipt, Receipts
from laurels.errors import BatchRefused, LaurelsError, by_code

from .answers import BatchAnswer

ErrorsByPosition = Mapping[int, LaurelsError]
"""The errors of events that were refused before they were sent, by position in the batch."""


class RemoteReceipts(Receipts):
    """Implementation of `Receipts` with receipts from an answer."""

    def __init__(
        self,
        receipts: Sequence[Receipt],
        *,
        window: str = "",
        offset: Offset = 0,
        late: Mapping[str, int] | None = None,
    ) -> None:
        self._receipts = receipts
        self._size = len(receipts)
        self.window = receipts[0].window if receipts else window
        self.offset = receipts[-1].offset if receipts else offset
        self._statuses = Counter([receipt.status for receipt in receipts])
        self._late_by_window = _late_by_window(receipts) if late is None else dict(late)

    @property
    def applied(self) -> int:
        return self._statuses["applied"]

    @property
    def unchanged(self) -> int:
        return self._statuses["unchanged"]

    @property
    def duplicates(self) -> int:
        return self._statuses["duplicate"]

    @property
    def refused(self) -> int:
        return self._statuses["refused"]

    @property
    def late(self) -> dict[str, int]:
        return self._late_by_window

    def _receipt(self, i: int, *, strict: bool = False) -> Receipt:
        if strict and (error := self.error(i)) is not None:
            raise error
        return self._receipts[i]

    def share(self, first: int, size: int) -> Receipts:
        return RemoteReceipts(self[first : first + size], window=self.window, offset=self.offset)

    def error(self, i: int) -> LaurelsError | None:
        receipt = self._receipts[i]
        if receipt.status != "refused" or receipt.reason is None:
            return None
        kind = by_code(receipt.reason)
        what = (receipt.message or "").removesuffix(f"; {kind.advice}")
        return BatchRefused(what, self) if issubclass(kind, BatchRefused) else kind(what)

    def with_errors(self, errors: ErrorsByPosition, members: Mapping[int, str | None]) -> Receipts:
        """Return these receipts with the original errors and members of the events that were
        refused before they were sent."""
        changed = list(self._receipts)
        for i, error in errors.items():
            changed[i] = replace(
                changed[i], member=members[i], reason=error.code, message=str(error)
            )
        return RemoteReceipts(
            changed, window=self.window, offset=self.offset, late=self._late_by_window
        )


def joined(answers: Iterable[BatchAnswer]) -> RemoteReceipts:
    """Return all receipts of a batch that was sent in several requests."""
    receipts: list[Receipt] = []
    late: Counter[str] = Counter()
    window = ""
    offset: Offset = 0
    for answer in answers:
        receipts += answer.receipts
        late.update(answer.late)
        window, offset = answer.window, answer.offset
    return RemoteReceipts(receipts, window=window, offset=offset, late=late)


def _late_by_window(receipts: Iterable[Receipt]) -> dict[str, int]:
    return dict(Counter(window for receipt in receipts for window in receipt.refused_windows))
