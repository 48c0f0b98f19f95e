"""The metrics of the sinks and sources that a service runs."""

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from laurels.wire.sinks import SinkReport
from laurels.wire.sources import SOURCE_OUTCOMES, SourceReport

from .flow_reports import FlowReports


def flow_metrics(reports: FlowReports) -> Iterator[Metric]:
    """Yield the metrics of sinks and sources. They are the same in all workers, so they are not
    labelled with the number of the worker."""
    yield from _of_sinks([each for each in reports.sinks if not each.elsewhere])
    yield from _of_sources([each for each in reports.sources if not each.elsewhere])


def _of_sinks(sinks: Sequence[SinkReport]) -> Iterator[Metric]:
    if not sinks:
        return
    delivered = CounterMetricFamily(
        "laurels_sink_delivered", "Changes delivered to a sink's target.", labels=["sink"]
    )
    parked = CounterMetricFamily(
        "laurels_sink_parked", "Changes that a sink's target refused.", labels=["sink"]
    )
    waiting = GaugeMetricFamily(
        "laurels_sink_waiting", "Changes waiting for delivery.", labels=["sink"]
    )
    lag = GaugeMetricFamily(
        "laurels_sink_lag_seconds",
        "Age of the oldest change waiting for delivery.",
        labels=["sink"],
    )
    used = GaugeMetricFamily(
        "laurels_sink_retention_used_ratio",
        "Share of a board's changes_max used by changes waiting for delivery.",
        labels=["sink"],
    )
    lost = GaugeMetricFamily(
        "laurels_sink_lost_boards",
        "Boards with changes that were removed before a sink had sent them.",
        labels=["sink"],
    )
    failing = GaugeMetricFamily(
        "laurels_sink_failing_seconds",
        "Seconds for which every attempt of a sink, or of one of its boards, has failed.",
        labels=["sink"],
    )
    restarts = CounterMetricFamily(
        "laurels_sink_restarts",
        "How many times all entries of a board were sent again, since changes were missing.",
        labels=["sink"],
    )
    yield from _of_payouts(sinks)
    for each in sinks:
        used.add_metric([each.name], each.used)
        lost.add_metric([each.name], each.lost_boards)
        failing.add_metric([each.name], each.failing_seconds)
        restarts.add_metric([each.name], each.restarts)
        delivered.add_metric([each.name], each.delivered)
        parked.add_metric([each.name], each.parked)
        waiting.add_metric([each.name], each.waiting)
        lag.add_metric([each.name], each.lag_seconds)
    yield from (delivered, parked, waiting, lag, failing, used, lost, restarts)


def _of_payouts(sinks: Sequence[SinkReport]) -> Iterator[Metric]:
    delivered = CounterMetricFamily(
        "laurels_sink_payouts_delivered", "Payouts delivered to a sink's target.", labels=["sink"]
    )
    parked = CounterMetricFamily(
        "laurels_sink_payouts_parked", "Payouts that a sink's target refused.", labels=["sink"]
    )
    waiting = GaugeMetricFamily(
        "laurels_sink_payouts_waiting", "Due payouts waiting for delivery.", labels=["sink"]
    )
    lag = GaugeMetricFamily(
        "laurels_sink_payouts_lag_seconds",
        "Seconds for which the oldest payout waiting for delivery has been due.",
        labels=["sink"],
    )
    for each in sinks:
        delivered.add_metric([each.name], each.payouts_delivered)
        parked.add_metric([each.name], each.payouts_parked)
        waiting.add_metric([each.name], each.payouts_waiting)
        lag.add_metric([each.name], each.payouts_lag_seconds)
    yield from (delivered, parked, waiting, lag)


def _of_sources(sources: Sequence[SourceReport]) -> Iterator[Metric]:
    if not sources:
        return
    messages = CounterMetricFamily(
        "laurels_source_messages",
        "Messages that a source has read, by outcome.",
        labels=["source", "outcome"],
    )
    failing = GaugeMetricFamily(
        "laurels_source_failing_seconds",
        "Seconds for which every attempt of a source to read or to count has failed.",
        labels=["source"],
    )
    for each in sources:
        for outcome in SOURCE_OUTCOMES:
            messages.add_metric([each.name, outcome], getattr(each, outcome))
        failing.add_metric([each.name], each.failing_seconds)
    yield from (messages, failing)
    lag = GaugeMetricFamily(
        "laurels_source_lag_seconds",
        "Seconds since the last counted message arrived, or since none was pending.",
        labels=["source"],
    )
    for each in sources:
        if each.lag_seconds is not None:
            lag.add_metric([each.name], each.lag_seconds)
    yield lag
