"""Metrics for Prometheus. Increasing a counter takes well under a microsecond. Everything else is
computed when the metrics are read."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from laurels.core.clock_status import ClockStatus
from laurels.core.receipt import Receipts
from laurels.core.stats import StoreFigures
from laurels.errors import RefusedReceipts
from laurels.server.admission.limits import AdmissionControl

from .flow_metrics import flow_metrics
from .flow_reports import FlowReports

SECONDS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
AGES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
EVENTS = (1, 2, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 100_000)


class Histogram:
    """Counts of observed values, by the upper bounds of buckets."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def see(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def buckets(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulative buckets that Prometheus expects, and the sum of values."""
        total, buckets = 0, []
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets, self._sum


class Metrics:
    """Counters since the server started; `clock` returns seconds since 1970."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self.outcomes: Counter[str] = Counter()
        self.requests: Counter[tuple[str, int]] = Counter()
        self.reads: dict[str, Histogram] = {}
        self.commit_seconds = Histogram(SECONDS)
        self.commit_events = Histogram(EVENTS)
        self.cut_off = 0
        self.answers: Counter[str] = Counter()
        self.answer_ages = Histogram(AGES)
        self.flows: Callable[[], FlowReports] = FlowReports
        """Returns the state of the sinks and sources of the service."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return int(self._clock() * 1_000)

    def age(self, taken: float | None) -> float:
        """Return the number of seconds since the instant `taken` or, if it is None, since the
        server started."""
        return self._clock() - (self._began if taken is None else taken)

    def submitted(self, receipts: Receipts | RefusedReceipts) -> None:
        """Count events by outcome."""
        outcomes = self.outcomes
        outcomes["applied"] += receipts.applied
        outcomes["unchanged"] += receipts.unchanged
        outcomes["duplicate"] += receipts.duplicates
        outcomes["refused"] += receipts.refused

    def counted(self, outcome: str) -> None:
        """Count a single event."""
        self.outcomes[outcome] += 1

    def answered(self, verb: str, status: int, seconds: float, *, reads: bool) -> None:
        """Count a request. For a read, also observe its duration."""
        self.requests[verb, status] += 1
        if reads:
            histogram = self.reads.get(verb)
            if histogram is None:
                histogram = self.reads[verb] = Histogram(SECONDS)
            histogram.see(seconds)

    def answered_at_age(self, from_memory: bool, seconds: float) -> None:
        """Count an answer about a board with `max_age`, and observe its age."""
        self.answers["memory" if from_memory else "index_server"] += 1
        self.answer_ages.see(seconds)

    def count_cut_off(self) -> None:
        """Count a feed that was closed because its client did not read it."""
        self.cut_off += 1

    def committed(self, events: int, seconds: float) -> None:
        """Count a commit. Called by the committing thread."""
        self.commit_events.see(events)
        self.commit_seconds.see(seconds)


class Exposed(Collector):
    """The metrics of a server in the form that Prometheus reads. Each of several workers exposes
    metrics of its own, labelled with the number of the worker."""

    def __init__(
        self,
        metrics: Metrics,
        admission: AdmissionControl,
        figures: StoreFigures,
        worker: int | None,
        kept_bytes: int,
    ) -> None:
        self._metrics = metrics
        self._admission = admission
        self._figures = figures
        self._worker = worker
        self._kept_bytes = kept_bytes

    def collect(self) -> Iterator[Metric]:
        for metric in self._collected():
            if self._worker is not None:
                worker = {"worker": str(self._worker)}
                metric.samples = [
                    sample._replace(labels={**sample.labels, **worker}) for sample in metric.samples
                ]
            yield metric
        if not self._figures.of_boards_only:
            yield from flow_metrics(self._metrics.flows())

    def _collected(self) -> Iterator[Metric]:
        if self._figures.of_boards_only:
            yield from self._of_boards()
            return
        yield from self._counted()
        yield from self._histograms()
        yield from self._of_process()
        figures = self._figures
        yield from self._of_store() if figures.store is not None else self._of_index()
        yield from self._of_boards()
        if figures.stores:
            yield _by_store(figures.stores)
        if (clock := figures.clock) is not None:
            yield from _of_clock(clock)

    def _counted(self) -> Iterator[Metric]:
        events = CounterMetricFamily("laurels_events", "Events by outcome.", labels=["outcome"])
        for outcome in ("applied", "unchanged", "duplicate", "refused"):
            events.add_metric([outcome], self._metrics.outcomes[outcome])
        yield events
        requests = CounterMetricFamily(
            "laurels_requests", "Requests by verb and status.", labels=["verb", "status"]
        )
        for (verb, status), count in sorted(self._metrics.requests.items()):
            requests.add_metric([verb, str(status)], count)
        yield requests
        yield CounterMetricFamily(
            "laurels_streams_cut_off",
            "Streams closed because their client stopped reading.",
            value=self._metrics.cut_off,
        )

    def _histograms(self) -> Iterator[Metric]:
        metrics = self._metrics
        for name, help, histogram in (
            ("laurels_commit_events", "Events per commit.", metrics.commit_events),
            (
                "laurels_commit_seconds",
                "Duration of a commit, with its flush to disk.",
                metrics.commit_seconds,
            ),
        ):
            buckets, total = histogram.buckets()
            yield HistogramMetricFamily(name, help, buckets=buckets, sum_value=total)
        buckets, total = metrics.answer_ages.buckets()
        yield HistogramMetricFamily(
            "laurels_answer_age_seconds",
            "Age of answers about boards with max_age.",
            buckets=buckets,
            sum_value=total,
        )
        answers = CounterMetricFamily(
            "laurels_answers", "Answers about boards with max_age, by source.", labels=["source"]
        )
        for source in ("memory", "index_server"):
            answers.add_metric([source], metrics.answers[source])
        yield answers
        yield GaugeMetricFamily(
            "laurels_answer_cache_bytes", "Bytes of the answers in memory.", self._kept_bytes
        )
        reads = HistogramMetricFamily(
            "laurels_read_seconds", "Duration of a read in the server, by verb.", labels=["verb"]
        )
        for verb, histogram in sorted(metrics.reads.items()):
            buckets, total = histogram.buckets()
            reads.add_metric([verb], buckets, total)
        yield reads

    def _of_process(self) -> Iterator[Metric]:
        admission = self._admission
        yield _gauge(
            "laurels_writes_waiting", "Writes that wait for their commit.", admission.writes
        )
        yield _gauge("laurels_streams", "Open streams.", admission.streams)

    def _of_index(self) -> Iterator[Metric]:
        figures = self._figures
        yield _gauge("laurels_boards", "Boards known to the process.", figures.count)
        yield _gauge("laurels_index_up", "Whether the index server answers.", figures.answers)

    def _of_store(self) -> Iterator[Metric]:
        figures, stats = self._figures, self._figures.store
        assert stats is not None
        for name, help, value in (
            ("laurels_boards", "Boards.", stats.boards),
            ("laurels_members", "Members known to the process.", stats.members),
            ("laurels_memory_bytes", "Memory of all rankings and names.", stats.nbytes),
            ("laurels_log_bytes", "Size of the log.", stats.log_nbytes),
            ("laurels_log_offset", "Newest entry of the log.", stats.offset),
            (
                "laurels_snapshot_age_seconds",
                "Age of the newest snapshot, or of the process if there is none.",
                self._metrics.age(figures.snapshot_taken),
            ),
        ):
            yield _gauge(name, help, value)
        yield _gauge(
            "laurels_writable", "Whether the last write reached the disk.", figures.writable
        )
        yield CounterMetricFamily(
            "laurels_write_failures",
            "Commits that could not be written to the disk.",
            value=figures.write_failures,
        )

    def _of_boards(self) -> Iterator[Metric]:
        yield _by_board(
            GaugeMetricFamily(
                "laurels_board_memory_bytes", "Memory of a board's rankings.", labels=["board"]
            ),
            self._figures.boards,
        )
        yield _by_board(
            CounterMetricFamily(
                "laurels_board_changes_lost",
                "Changes removed beyond changes_max before a registered sink had sent them.",
                labels=["board"],
            ),
            self._figures.changes_lost,
        )
        yield _by_board(
            GaugeMetricFamily(
                "laurels_board_changes_used_ratio",
                "Share of changes_max used by changes that a registered sink has not sent.",
                labels=["board"],
            ),
            self._figures.changes_used,
        )
        yield _by_board(
            GaugeMetricFamily(
                "laurels_board_unsealed_seconds",
                "How long a board's oldest closed period has waited to be sealed in its ledger.",
                labels=["board"],
            ),
            self._figures.unsealed,
        )
        yield _by_board(
            GaugeMetricFamily(
                "laurels_board_unpaid_seconds",
                "How long a board has stayed after its retain, as payouts are not confirmed.",
                labels=["board"],
            ),
            self._figures.unpaid,
        )
        scopes = GaugeMetricFamily(
            "laurels_board_scopes",
            "Scopes of a board that have members, by the names of their labels.",
            labels=["board", "labels"],
        )
        for board, form, count in self._figures.scopes:
            scopes.add_metric([board, form], count)
        yield scopes
        yield _by_board(
            GaugeMetricFamily(
                "laurels_board_scopes_memory_bytes",
                "Memory of a board's scopes, which the board's memory includes; estimated for many "
                "scopes.",
                labels=["board"],
            ),
            self._figures.scopes_memory,
        )


def _of_clock(clock: ClockStatus) -> Iterator[Metric]:
    yield _gauge(
        "laurels_clock_leap_seconds",
        "Seconds by which the machine's clock has leapt ahead of the time in use, else 0.",
        clock.leap_ms / 1_000,
    )
    yield _gauge(
        "laurels_clock_ahead_seconds",
        "Seconds by which the newest record is ahead of the clock.",
        clock.ahead_ms / 1_000,
    )
    yield CounterMetricFamily(
        "laurels_clock_leaps", "Leaps of the clock not followed at once.", value=clock.leaps
    )


def _by_store(stores: Iterable[tuple[str, bool]]) -> Metric:
    metric = GaugeMetricFamily(
        "laurels_store_up", "Whether a store behind the service answers.", labels=["store"]
    )
    for name, answers in stores:
        metric.add_metric([name], answers)
    return metric


def _by_board(
    metric: CounterMetricFamily | GaugeMetricFamily, figures: Iterable[tuple[str, float]]
) -> Metric:
    """Return a metric with a value for each board."""
    for board, value in figures:
        metric.add_metric([board], value)
    return metric


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value=value)


def exposition(exposed: Exposed) -> bytes:
    """Return the metrics in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exposed)
    return generate_latest(registry)


CONTENT_TYPE = CONTENT_TYPE_LATEST
