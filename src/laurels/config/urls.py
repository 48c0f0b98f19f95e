"""The URLs of stores: the kind of store that a URL names, and its folder."""

from os import PathLike
from pathlib import Path
from urllib.parse import unquote

from laurels.errors import NothingToBackUp, UnknownUrl
from laurels.model.validation import is_unicode, safe_repr
from laurels.stores.redis.connection.urls import is_redis

DEFAULT_URL = "laurels-data"


def is_remote(url: str | PathLike[str]) -> bool:
    """Return whether a URL names a server."""
    return isinstance(url, str) and url.lower().startswith(("http://", "https://"))


def is_direct(url: str | PathLike[str]) -> bool:
    """Return whether a URL names an index server."""
    return is_redis(url)


def without_login(url: str) -> str:
    """Return a URL without its credentials, for display."""
    if "://" not in url:
        return url
    place, _, query = without_key(url).partition("?")
    parameters = [each for each in query.split("&") if each and not _is_password(each)]
    return f"{place}?{'&'.join(parameters)}" if parameters else place


def _is_password(parameter: str) -> bool:
    return "password" in unquote(parameter.partition("=")[0]).lower()


def without_key(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def folder_of(url: str) -> Path | None:
    """Return the folder with the files of a deployment, None if it has none. Raises UnknownUrl."""
    return None if url == "memory:" or is_direct(url) else folder_path(url)


def folder_with_files(url: str) -> Path:
    """Return the folder with the files of a deployment. Raises NothingToBackUp if it has none."""
    if url == "memory:":
        raise NothingToBackUp("the store is in memory: it has no files")
    if is_direct(url):
        raise NothingToBackUp(
            "the boards are on an index server: use its own backups, there are no files here"
        )
    return folder_path(url)


def folder_path(url: object) -> Path:
    if not isinstance(url, str) or not url or "://" in url or "\0" in url or not is_unicode(url):
        raise UnknownUrl(f"expected the URL of a deployment, got {safe_repr(url)}")
    return Path(url.removeprefix("file:"))
