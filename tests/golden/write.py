"""Write golden files again with `python -m tests.golden.write NAME…`.

Without names, it writes all files except the folders. A commit that changes these files has to say
in its message what changed and why, because users and stored data rely on them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.golden import folder, surfaces, trace_file

WRITERS: dict[str, Callable[[], None]] = {
    "signatures": surfaces.write_signatures,
    "openapi": surfaces.write_openapi,
    "help": surfaces.write_help,
    "errors": surfaces.write_errors,
    "trace": trace_file.write,
    "folder": folder.write,
}


def main(names: list[str]) -> None:
    """Write the files with these names."""
    for name in names or [name for name in WRITERS if name != "folder"]:
        WRITERS[name]()
        print(f"wrote {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
