"""The process with the shim: it forks for each part that it is asked to run.

    LD_PRELOAD=failing_io.so python -m tests.crash.stage

It reads a line of JSON for each part, and answers with a line that has the exit code, negative if a
signal ended the part. A part that takes longer than a minute is ended by an alarm.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.crash.disk import SECONDS
from tests.crash.play import PARTS, play, report_writer


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _perform(request)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _perform(request: dict[str, Any]) -> None:
    """Run a part, then end this process."""
    signal.alarm(SECONDS)
    report = report_writer(os.open(request["reports"], os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    os.environ.update(request["settings"])
    try:
        play(Path(request["folder"]), PARTS[request["part"]], report)
    except BaseException:
        report({"broken": traceback.format_exc()})
        os._exit(3)
    os._exit(0)


if __name__ == "__main__":
    main()
