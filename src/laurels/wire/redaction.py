"""Remove the server's file paths from texts for clients."""

import re
from pathlib import Path

_PATH = re.compile(r"""(?<![\w/.:])/(?:[^\s/'"():,;]+/)+([^\s/'"():,;]*)""")
_folders: set[str] = set()


def hide_folder(folder: Path) -> None:
    """Make `without_paths` replace the path of this folder from now on, even if the path has
    spaces."""
    _folders.update({str(folder), str(folder.absolute())})


def without_paths(text: str) -> str:
    """Return a text in which each absolute path is replaced by its last component."""
    for folder in sorted(_folders, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
        text = re.sub(rf"{re.escape(folder)}(?!\w)", Path(folder).name or "the folder", text)
    return _PATH.sub(lambda path: path[1] or "a folder", text)
