"""The files that are served unchanged: the page, the documentation, and the files that these
load."""

import hashlib
from importlib.resources import files

from msgspec import Struct

_SAFE = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class Asset(Struct, frozen=True):
    """A file and its content type."""

    content: bytes
    content_type: str

    @property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    @property
    def headers(self) -> dict[str, str]:
        return {**_SAFE, "ETag": self.etag}


_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


def _asset(name: str) -> Asset:
    content = files("laurels.server").joinpath("static", name).read_bytes()
    return Asset(content, _KINDS[name.rpartition(".")[2]])


def _pages() -> dict[str, Asset]:
    static = files("laurels.server").joinpath("static")
    assets = {
        f"/static/{each.name}": _asset(each.name)
        for each in static.iterdir()
        if each.name.rpartition(".")[2] in _KINDS
    }
    return assets | {"/": _asset("index.html"), "/docs": _asset("docs.html")}


PAGES = _pages()
"""The assets by path."""
