"""What a client is not told: where on the server files lie."""

import re
from pathlib import Path

_PATH = re.compile(r"""(?<![\w/.:])/(?:[^\s/'"():,;]+/)+([^\s/'"():,;]*)""")
_folders: set[str] = set()


def hide_folder(folder: Path) -> None:
    """Have `without_paths` know a folder by its whole name, which may have spaces, for as long as
    the process runs."""
    _folders.update({str(folder), str(folder.absolute())})


def without_paths(text: str) -> str:
    """Return a text with the last name of each absolute path in place of the path."""
    for folder in sorted(_folders, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
        text = re.sub(rf"{re.escape(folder)}(?!\w)", Path(folder).name or "the folder", text)
    return _PATH.sub(lambda path: path[1] or "a folder", text)
