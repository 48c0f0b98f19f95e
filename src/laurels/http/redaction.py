"""What a client is not told: where on the server files lie."""

import re

_PATH = re.compile(r"""(?<![\w/.:])/(?:[^\s/'"():,;]+/)+([^\s/'"():,;]*)""")


def without_paths(text: str) -> str:
    """Return a text with the last name of each absolute path in place of the path."""
    return _PATH.sub(lambda path: path[1] or "a folder", text)
