"""Putting a deployment together: the only package that names the concrete parts.

A deployment is named by a URL. A folder's path (or `file:` and a path) names the embedded
deployment, with the log in SQLite and the index in memory. `memory:` keeps the log in memory as
well, and its data ends with the process. `redis://…` and its variants name the direct deployment,
with the boards on an index server: `direct`. `http://…` and `https://…` name a server, which
`connect` does not open: `remote` returns the verbs over it.
"""

from .audit import audit_log_of, recorder_of
from .backing import key_store_of, servable
from .folders import announced, back_up, restore, rewind
from .index_server import direct, direct_async, direct_beside, direct_here
from .local import connect
from .portable import portable
from .recording import recorded_as, recorded_verbs, recorded_verbs_async
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
    "recorded_as",
    "recorded_verbs",
    "recorded_verbs_async",
    "recorder_of",
    "remote",
    "remote_async",
    "remote_wire",
    "restore",
    "rewind",
    "servable",
    "without_login",
]
