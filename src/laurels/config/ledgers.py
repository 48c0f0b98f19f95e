"""The URLs of the ledgers that boards on an index server name.

A definition has the name of a ledger and not its URL, which may have a password. The URL is in the
table `[ledgers]` of the settings file of a server, or in the environment variable
`LAURELS_LEDGER_NAME`, where NAME is the name in capitals. The variable takes precedence.
"""

import os
from collections.abc import Mapping

LEDGER_VARIABLES = "LAURELS_LEDGER_"
"""How the variables with the URLs of ledgers begin."""


def ledger_urls(configured: Mapping[str, str]) -> dict[str, str]:
    """Return the URLs of all ledgers that this process knows, by name."""
    of_environment = {
        variable.removeprefix(LEDGER_VARIABLES).lower(): url
        for variable, url in os.environ.items()
        if variable.startswith(LEDGER_VARIABLES) and url
    }
    return {**configured, **of_environment}
