"""Makes cdnow.csv.gz from the data set's text file: `python make_cdnow.py cdnow.txt`.

Each line of the text file has customer, date (YYYYMMDD), number of CDs and dollars, separated by
spaces. The lines keep their order, and the same input always gives the same bytes.
"""

import gzip
import sys
from pathlib import Path

OUTPUT = Path(__file__).with_name("cdnow.csv.gz")


def csv_of(text: str) -> str:
    """Return the purchases as CSV with a header and ISO dates."""
    lines = ["customer,date,cds,amount"]
    for line in text.splitlines():
        customer, date, cds, amount = line.split()
        lines.append(f"{customer},{date[:4]}-{date[4:6]}-{date[6:]},{cds},{amount}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    content = csv_of(Path(sys.argv[1]).read_text(encoding="ascii"))
    OUTPUT.write_bytes(gzip.compress(content.encode(), mtime=0))
