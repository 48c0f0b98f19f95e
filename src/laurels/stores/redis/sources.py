"""Loads the scripts from the files in `lua/`."""

import hashlib
from functools import cache
from importlib.resources import files

from .scripts import Script


@cache
def script_of(name: str, *before: str) -> Script:
    """Return the script in the file `name`, preceded by the files that it needs."""
    folder = files(__package__).joinpath("lua")
    texts = [folder.joinpath(f"{each}.lua").read_text(encoding="utf-8") for each in (*before, name)]
    source = "\n".join(texts)
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
