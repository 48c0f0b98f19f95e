"""The main job on real data: who spent most at CDNOW, for all time, by month and by week.

Run it with the Python that laurels is installed in; it prints each command before its output.
Run twice it shows the same: nothing is counted twice.
"""

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

PURCHASES = Path(__file__).with_name("cdnow.csv.gz")
MONTHS = 18
WEEKS = 79

CREATE = [
    *("board", "create", "spent", "--title", "Spent at CDNOW (dollars)"),
    *("--column", "amount:scale=2", "--tie", "member"),
    *("--window", "all", "--window", f"month=month:keep={MONTHS}"),
    *("--window", f"week=week:keep={WEEKS}", "--clock", "event", "--exist-ok"),
]
IMPORT = [
    *("import", "spent", os.path.relpath(PURCHASES), "--clock", "event"),
    *("--member", "customer", "--value", "amount", "--at-column", "date"),
]
QUESTIONS = [
    ["top", "spent"],
    ["top", "spent", "--window", "month", "--period", "2021-02", "--limit", "5"],
    ["top", "spent", "--window", "month", "--limit", "5"],
    ["top", "spent", "--window", "week", "--limit", "5"],
    ["rank", "spent", "07592", "--window", "month", "--to-rank", "1"],
]


def run(command: list[str], url: str) -> None:
    """Shows one command and runs it."""
    print(f"$ laurels {shlex.join(command)}", flush=True)
    environment = {**os.environ, "LAURELS_URL": url}
    subprocess.run([sys.executable, "-m", "laurels.cli", *command], env=environment, check=True)
    print(flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", metavar="URL", default="laurels-data", help="where the board is")
    url = parser.parse_args().at
    try:
        for command in [CREATE, IMPORT, *QUESTIONS]:
            run(command, url)
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
