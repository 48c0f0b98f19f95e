"""The reference of a clock guard, stored in the folder for the next process."""

from contextlib import suppress
from pathlib import Path

import msgspec

from laurels.timeline.clock_guard import Reference

from .private_files import written_file

CLOCK_NAME = "clock"


class ClockFile:
    """The clock reference of a folder. The file is optional: if it cannot be written or read, the
    next process accepts the current clock, as it does after a reboot."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CLOCK_NAME

    def load(self) -> Reference | None:
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._path.read_bytes(), type=Reference)
        return None

    def save(self, reference: Reference) -> None:
        written = self._path.with_name(f"{CLOCK_NAME}.unfinished")
        with suppress(OSError):
            with written_file(written) as file:
                file.write(msgspec.json.encode(reference))
            written.replace(self._path)
