"""Load the scripts from the files in `lua/`. The source of a script is sent to a server once. Later
calls send only the digest of the source."""

import hashlib
from functools import cache
from importlib.resources import files

from .scripts import Script


@cache
def script_of(name: str, *before: str) -> Script:
    """Return the script in the file `name`. The files that the script needs precede it in the
    source."""
    folder = files(__package__).joinpath("lua")
    texts = [folder.joinpath(f"{each}.lua").read_text(encoding="utf-8") for each in (*before, name)]
    source = "\n".join(texts)
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
