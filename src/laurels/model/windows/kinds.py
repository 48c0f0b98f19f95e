"""Windows: which events count together. Pure.

`All` takes every event for ever. `Calendar` starts empty at every boundary of its unit in its time
zone (`calendar` computes the boundaries). `Rolling` counts a number of steps up to the current one
(`steps` computes them). `Decay` takes every event for ever, and its scores decay. Nothing runs at a
boundary: the period or step of an instant is computed when it is needed. Computing a period costs
some microseconds, so a window caches the last computed period. Another instant of the same period
then costs one comparison.

All kinds have the same methods, so that no other code depends on the kind:

- periods: `period_at`, `period` of a label, `kept_periods`, `counts_from`;
- what is stored: `instance_of` is the number under which the kind stores a period, `period_of` the
  period of such a number, `oldest_counted` and `oldest_stored` are the oldest such numbers, and
  `lives_ms` is how long a period is stored;
- which events are accepted: `takes`, `taken_until`, `next_refusal`; `floor_ms` is the instant
  before which a board that was changed has no data;
- which periods are closed: `closes_after`, `is_archived`, `last_archived`, `archived_with`;
- how events are counted: `steps` (in how many tallies; 0 if each period has one ranking),
  `interval_ms` (how often the ranking is recomputed; 0 if it is always live), `weighing` (the
  weights of events; None if each event counts in full), `holds_totals` (whether a score is the
  total of all events).
"""

from .all import All
from .calendar import Calendar
from .decay import Decay
from .rolling import Rolling

Window = All | Calendar | Rolling | Decay
