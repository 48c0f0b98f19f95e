"""An example on real data: the customers who spent most at the shop CDNOW, for all time, by month,
by week, and in the last 7 and 30 days.

It replays the purchases as if they happened now. It imports those up to the end of March 2021,
shows the ranking of the last 7 days at that time, and imports the rest. Each command is printed
before its output. Run the file with the Python in which laurels is installed. A second run
continues after the last purchase and counts nothing twice. With --serve the example ends by serving
the boards over HTTP until Ctrl-C.
"""

import argparse
import os
import secrets
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
    *("--window", "all", "--window", f"month:keep={MONTHS}"),
    *("--window", f"week:keep={WEEKS}"),
    *("--window", "7d=rolling:7d/1d", "--window", "30d=rolling:30d/1d"),
    *("--clock", "event", "--exist-ok"),
]
IMPORT = [
    *("import", "spent", os.path.relpath(PURCHASES), "--clock", "event"),
    *("--member", "customer", "--value", "amount", "--at-column", "date"),
]
MARCH = [*IMPORT, "--until", "2021-03-31"]
LAST_7_DAYS = ["top", "spent", "--window", "7d", "--limit", "5"]
QUESTIONS = [
    ["top", "spent"],
    ["top", "spent", "--window", "month", "--period", "2021-02", "--limit", "5"],
    ["top", "spent", "--window", "month", "--limit", "5"],
    ["top", "spent", "--window", "week", "--limit", "5"],
    ["top", "spent", "--window", "30d", "--limit", "5"],
    ["rank", "spent", "07592", "--window", "month", "--to-rank", "1"],
]

TO_TRY = """\
The server starts now, with a key for this run (LAURELS_ADMIN_KEY). Open the page, or try the
requests:

  {address}/#key={key}
  curl -H 'Authorization: Bearer {key}' '{address}/v1/boards/spent/top?limit=3'
  curl -H 'Authorization: Bearer {key}' '{address}/v1/boards/spent/card?member=07592'
  curl -H 'Authorization: Bearer {key}' -N '{address}/v1/boards/spent/live?window=month'
"""


def run(command: list[str], url: str) -> None:
    """Shows one command and runs it."""
    print(f"$ laurels {shlex.join(command)}", flush=True)
    environment = {**os.environ, "LAURELS_URL": url}
    subprocess.run([sys.executable, "-m", "laurels.cli", *command], env=environment, check=True)
    print(flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", metavar="URL", default="laurels-data", help="the board's store")
    parser.add_argument("--serve", action="store_true", help="serve the board at the end")
    parser.add_argument("--port", default="8080", help="the server's port")
    options = parser.parse_args()
    try:
        for command in [CREATE, MARCH, LAST_7_DAYS, IMPORT, *QUESTIONS]:
            run(command, options.at)
        if options.serve:
            key = os.environ.setdefault("LAURELS_ADMIN_KEY", secrets.token_hex(32))
            print(TO_TRY.format(address=f"http://127.0.0.1:{options.port}", key=key))
            run(["serve", "--data", options.at, "--port", options.port], options.at)
    except KeyboardInterrupt:
        return 0
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
