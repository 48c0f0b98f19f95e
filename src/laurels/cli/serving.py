"""`serve`: the HTTP service."""

import inspect
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from laurels.config import without_login
from laurels.server.process.settings import REMOVED, Setting, admin_key_of, settings_of, table

from .errors import MissingExtra
from .show import complain

_NAMES = {"data": ("--data", "--at")}
_PANELS = {
    "data": "Connection",
    **dict.fromkeys(("host", "port", "workers", "cors_origins"), "Address"),
    **dict.fromkeys(("trusted_proxy", "forwarded_header"), "Address"),
    **dict.fromkeys(("open", "max_clock_step"), "Safety"),
    **dict.fromkeys(("log_format", "log_requests"), "Log"),
}
_LIMITS = "Limits"
"""The help panel of limits. It has every setting that `_PANELS` does not name."""


def serve(config: Path | None = None, **options: Any) -> int:
    """Serve the boards over HTTP.

    Each setting is taken from its option, else from LAURELS_... in the environment, else from
    --config FILE (TOML). If there is no key yet, an admin key is created and printed once, unless
    LAURELS_ADMIN_KEY is set. --open serves without keys, but only to this machine.

    \b
    Examples:
      laurels serve
      laurels serve --data /srv/boards --port 9000
      laurels serve --open
      laurels serve --data redis://localhost --workers 4
      LAURELS_ADMIN_KEY=$(openssl rand -hex 32) laurels serve --host 0.0.0.0
    """
    settings = settings_of(options, os.environ, config)
    try:
        starting = import_module("laurels.server.process.starting")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error.name} is not installed") from error
    code: int = starting.serve(
        settings,
        admin_key_of(os.environ),
        lambda address: _announce(settings.stores, address.url, address.first_key),
    )
    return code


def _announce(stores: Sequence[str], url: str, first_key: str | None) -> None:
    """Print the address of the service, and its first key if one was just created."""
    complain(f"serving {', '.join(map(without_login, stores))} on {url}")
    if first_key is None:
        return
    local = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    header = f"-H 'Authorization: Bearer {first_key}'"
    for line in (
        "created the first key, with the scope admin. It is shown only once:",
        f"  {local}/#key={first_key}",
        f"  curl {header} -X PUT --json '{{}}' '{local}/v1/boards/gifts'",
        f"  curl {header} '{local}/v1/boards'",
        "`laurels key create` creates others; `laurels serve --open` needs none on this machine",
    ):
        complain(line)


def _parameter(setting: Setting) -> inspect.Parameter:
    """Return the command-line option for a setting. Its default is None, so that the environment or
    the settings file applies if the option is not used."""
    kind = setting.kind
    default = setting.default
    description = f"{setting.does} Default: {default if default not in ([], '') else 'none'}."
    names = _NAMES.get(setting.name, (setting.option,))
    if kind is bool:
        names = (f"{setting.option}/--no-{setting.name.replace('_', '-')}",)
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            kind | None,
            typer.Option(
                *names, help=description, rich_help_panel=_PANELS.get(setting.name, _LIMITS)
            ),
        ],
    )


def _config() -> inspect.Parameter:
    return inspect.Parameter(
        "config",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            Path | None,
            typer.Option(
                "--config", metavar="FILE", help="A TOML file with settings under these names."
            ),
        ],
    )


def _removed(name: str) -> inspect.Parameter:
    """Return an option of an earlier version. It is accepted only so that the error can name its
    replacement."""
    option = f"--{name}/--no-{name}"
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[bool | None, typer.Option(option, hidden=True)],
    )


_parameters = [_config(), *map(_parameter, table()), *map(_removed, REMOVED)]
serve.__signature__ = inspect.Signature(_parameters)  # type: ignore[attr-defined]
serve.__annotations__ = {each.name: each.annotation for each in _parameters} | {"return": int}
