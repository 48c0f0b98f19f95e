"""Windows: which events count together. Pure.

`All` takes every event for ever. `Calendar` begins anew at every boundary of its unit in its
time zone (`calendar` computes the boundaries). `Rolling` counts a number of steps up to the current
one (`steps` computes them). `Decay` takes every event for ever, and its scores decay. Nothing runs
at a boundary: the period or step of an instant is computed when it is needed. That costs some
microseconds, so a window remembers the last one it computed, and another instant of the same period
costs a comparison.

All kinds have the same methods, so that no other code depends on the kind:

- periods: `period_at`, `period` of a label, `kept_periods`, `counts_from`;
- what is stored: `instance_of` a period and `period_of` an instance, which is a number of the
  kind's own, the `oldest_counted` and the `oldest_stored` one, and for how long one `lives_ms`;
- what is taken: `takes`, `taken_until`, `next_refusal`, with the `floor_ms` before which a board
  that changed has nothing;
- how it is counted: `steps` (in how many tallies, 0 where a period has one ranking), `interval_ms`
  (how often its ranking is made, 0 where it is live), `weighing` (how much events weigh; None: each
  in full), `holds_totals` (whether a score is the total of all events).
"""

from .all import All
from .calendar import Calendar
from .decay import Decay
from .rolling import Rolling

Window = All | Calendar | Rolling | Decay
