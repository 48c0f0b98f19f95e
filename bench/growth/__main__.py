"""`python -m bench.growth FILE PICTURE`: draw a picture of the costs by size from an existing
report."""

import sys
from pathlib import Path

import msgspec

from bench.growth.picture import picture
from bench.report import Measured


def main(report: Path, drawn: Path) -> None:
    """Write the SVG."""
    measured = msgspec.json.decode(report.read_bytes(), type=Measured)
    machine = measured.machine
    about = f"{machine.cpu}, {machine.cores} cores, {machine.kernel}, {measured.started[:10]}"
    drawn.write_text(picture(measured.samples, about))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
