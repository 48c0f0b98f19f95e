"""Putting a deployment together: the one place that names concrete parts.

A deployment is named by a URL: a folder's path (or `file:` and a path) is the embedded one, the
log in SQLite and the index in memory; `memory:` keeps the log in memory too and is gone with
the process. `http://…` and `https://…` are a server, which `connect` does not open: `remote`
gives the verbs over it. `redis://…` and its kin are the direct deployment, the boards on an index
server: `direct`.
"""

from .audit import audit_log_of
from .backing import key_store_of, servable
from .folders import announced, back_up, restore, rewind
from .index_server import direct, direct_async, direct_beside, direct_here
from .local import connect
from .portable import portable
from .service import KEY_VARIABLE, remote, remote_async, remote_wire
from .urls import DEFAULT_URL, folder_of, is_direct, is_remote, without_login

__all__ = [
    "DEFAULT_URL",
    "KEY_VARIABLE",
    "announced",
    "audit_log_of",
    "back_up",
    "connect",
    "direct",
    "direct_async",
    "direct_beside",
    "direct_here",
    "folder_of",
    "is_direct",
    "is_remote",
    "key_store_of",
    "portable",
    "remote",
    "remote_async",
    "remote_wire",
    "restore",
    "rewind",
    "servable",
    "without_login",
]
