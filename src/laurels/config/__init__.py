"""Opens deployments: the only package that names the concrete classes of stores.

A deployment is named by a URL. The path of a folder (or `file:` and a path) is a store in this
process, with its log in SQLite and its index in memory. `memory:` also has its log in memory, so
its data ends with the process. `redis://…` and its variants name an index server that holds the
boards; `direct` opens it. `http://…` and `https://…` name a laurels service; `remote` opens it.
"""

from .audit import audit_log_of, recorder_of
from .backing import key_store_of, servable
from .folders import announced, back_up, restore, rewind
from .index_server import direct, direct_async, direct_beside, direct_here
from .ledgers import LEDGER_VARIABLES
from .local import connect
from .placing import ensure_placeable, placed, store_list
from .portable import portable
from .recording import recorded_as, recorded_verbs, recorded_verbs_async
from .service import KEY_VARIABLE, remote, remote_async, remote_wire
from .urls import DEFAULT_URL, folder_of, is_direct, is_remote, without_login

__all__ = [
    "DEFAULT_URL",
    "KEY_VARIABLE",
    "LEDGER_VARIABLES",
    "announced",
    "audit_log_of",
    "back_up",
    "connect",
    "direct",
    "direct_async",
    "direct_beside",
    "direct_here",
    "ensure_placeable",
    "folder_of",
    "is_direct",
    "is_remote",
    "key_store_of",
    "placed",
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
    "store_list",
    "without_login",
]
