"""The service compared with FastAPI and Redis, in a short form of `python -m bench.http`."""

from collections.abc import Iterator

from bench.http.effort import SHORT
from bench.http.process import two_cores
from bench.http.suite import SHORT_PEERS, HttpPlan, measure_short, missing, software
from bench.outcome import Findings
from bench.sizes import size_name
from bench.suite import EVERYBODY, Plan
from bench.targets.compared import against_best
from bench.targets.scale import Scale

_LEAST = 5.0
_CASE = "requests/s"


def measure_http(plan: Plan, scale: Scale) -> Iterator[Findings]:
    """Measure the requests per second on one core, compared with peers of the same durability."""
    if not scale.services or plan.chosen != EVERYBODY:
        return
    cores, lacking = two_cores(), missing(SHORT_PEERS)
    if cores is None or lacking:
        plan.say(f"the service is not measured: {'; '.join(lacking) or 'there is only one core'}")
        return
    folder = plan.folder / "http"
    folder.mkdir()
    http = HttpPlan(SHORT, SHORT_PEERS, cores, folder, plan.now_ms, plan.say)
    samples = measure_short(http)
    outcomes = []
    for group in dict.fromkeys(s.question.group for s in samples):
        rows = [s for s in samples if (s.question.group, s.question.case) == (group, _CASE)]
        durable = [s for s in rows if s.safety == "each commit"]
        # Reads are the same with every setting, so they are measured once.
        fair = durable if any(not s.ours for s in durable) else rows
        ours = [s for s in fair if s.ours]
        outcomes += against_best(f"{group}, {size_name(SHORT.members)} members", fair, ours, _LEAST)
    yield Findings(samples, outcomes, software(SHORT_PEERS))
