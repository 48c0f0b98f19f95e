"""`check` and `rebuild`: is the index what the log says, and make it so."""

import laurels
from laurels.errors import CheckFailed, LogDamaged

from .options import DEFAULT_URL, AsJson, Url
from .show import complain_of, put_json, put_line

FAULTY = 1


def check(at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Check that the rankings are what the log says.

    Every structure is checked, and the rankings are compared with a fold of the whole log. Ends
    with 1 when something is not in order.

    \b
    Examples:
      laurels check
      laurels check --at /srv/boards --json
    """
    try:
        with laurels.open(at, create=False) as lb:
            report = lb.check()
    except (CheckFailed, LogDamaged) as error:
        complain_of(error)
        return FAULTY
    if json:
        put_json(report)
    else:
        put_line(
            f"in order: {report.boards:,} boards, {report.rankings:,} rankings, "
            f"{report.entries:,} entries, at offset {report.offset:,}"
        )
    return 0


def rebuild(at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Derive all rankings anew from the log.

    \b
    Example:
      laurels rebuild --at /srv/boards
    """
    with laurels.open(at, create=False) as lb:
        lb.rebuild()
        stats = lb.stats()
    if json:
        put_json(stats)
    else:
        put_line(f"rebuilt: {stats.boards:,} boards, at offset {stats.offset:,}")
    return 0
