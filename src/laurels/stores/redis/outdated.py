"""The errors of calls whose caller knows an outdated state. The server has changed nothing; the
caller reads the new state, and repeats the call."""

from collections.abc import Iterable

from laurels.model.labels import ALL
from laurels.stores.redis.sharding.feed import FeedPlace


class DefinitionOutdated(Exception):  # noqa: N818 (names the state, as the following ones do)
    """The board has another definition version on the server, or does not exist there. The caller
    has to read the definitions again."""


class PlanExpired(Exception):  # noqa: N818
    """A period or step in the caller's plan has ended. The caller has to plan again, for
    `now_ms`."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(f"the plan has expired at the server's time {now_ms}")
        self.now_ms = now_ms


class PeriodClosed(PlanExpired):
    """An event of the plan is in a period that is frozen. The caller has to close the periods that
    are due, and then to plan again, for `now_ms`."""


class ClosingsMoved(Exception):  # noqa: N818
    """Periods were closed or sealed that the caller does not know of. The caller has to read the
    closings of the board again."""


class StepNotReady(Exception):  # noqa: N818
    """A rolling window is not at the running step. The caller has to rotate it in these `scopes`
    ("" is the scope of all events), and then to repeat the call."""

    def __init__(self, scopes: Iterable[str] = (ALL,)) -> None:
        self.scopes = tuple(dict.fromkeys(scopes))
        super().__init__(f"{len(self.scopes)} scopes are stale")


class BoundariesNeeded(Exception):  # noqa: N818
    """Rolling windows that are archived at boundaries are at steps around which the call names no
    boundaries. `steps` has the step of each of these windows. The caller has to repeat the call
    with the boundaries around these steps."""

    def __init__(self, steps: dict[str, int]) -> None:
        super().__init__(f"the boundaries around the steps {steps} are needed")
        self.steps = steps


class ScopesNotReady(StepNotReady):
    """A list of scopes would contain stale scopes, which may be empty by now. The caller has to
    advance these scopes, and then to ask again."""


class HiddenNotReady(Exception):  # noqa: N818
    """The shard does not keep the entries of the current hidden members for some rankings. The call
    has changed nothing. `names` are the names of these rankings."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__("the entries of hidden members are not kept yet")
        self.names = list(dict.fromkeys(names))


class PassesNotReady(Exception):  # noqa: N818
    """The members of a ranking cannot be visited before a pass has moved all of them into the
    layout with a head. The caller has to continue the passes, and then to ask again."""


class TrackingLost(Exception):  # noqa: N818
    """The changes of a board that is copied to another store are no longer tracked, because the
    server was replaced or another copy was begun. The caller has to begin the copy again."""


class FeedConflict(Exception):  # noqa: N818
    """Other processes have counted entries of the feeds meanwhile. `places` has for each feed the
    entry that was counted last; the caller has to continue after it."""

    def __init__(self, places: Iterable[FeedPlace]) -> None:
        self.places = list(places)
        super().__init__(f"the feeds are counted up to {self.places}")


class RefreshChanged(Exception):  # noqa: N818
    """A refreshed window is not in the state that the caller expected. The caller has to repeat the
    query."""
