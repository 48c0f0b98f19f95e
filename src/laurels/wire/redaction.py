"""Hiding from clients where on the server files are."""

import re
from pathlib import Path

_PATH = re.compile(r"""(?<![\w/.:])/(?:[^\s/'"():,;]+/)+([^\s/'"():,;]*)""")
_folders: set[str] = set()


def hide_folder(folder: Path) -> None:
    """Make `without_paths` recognize a folder by its whole path, which may have spaces, for as long
    as the process runs."""
    _folders.update({str(folder), str(folder.absolute())})


def without_paths(text: str) -> str:
    """Return a text in which each absolute path is replaced by its last name."""
    for folder in sorted(_folders, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
        text = re.sub(rf"{re.escape(folder)}(?!\w)", Path(folder).name or "the folder", text)
    return _PATH.sub(lambda path: path[1] or "a folder", text)
