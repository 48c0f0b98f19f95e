"""`serve`: the boards as a service."""

import inspect
import os
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from laurels.config import without_login
from laurels.http.settings import Setting, admin_key_of, settings_of, table

from .failures import MissingExtra
from .show import complain

_NAMES = {"data": ("--data", "--at")}


def serve(config: Path | None = None, **given: Any) -> int:
    """Serve the boards over HTTP.

    Settings come from options, then LAURELS_... in the environment, then --config FILE (TOML).
    LAURELS_ADMIN_KEY is the first key; without any key only this machine is listened to.

    \b
    Examples:
      laurels serve
      laurels serve --data /srv/boards --port 9000
      laurels serve --data redis://localhost --workers 4
      LAURELS_ADMIN_KEY=$(openssl rand -hex 32) laurels serve --host 0.0.0.0
    """
    settings = settings_of(given, os.environ, config)
    try:
        serving = import_module("laurels.http.serving")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error.name} is not installed") from error
    code: int = serving.serve(
        settings,
        admin_key_of(os.environ),
        lambda address: complain(f"serving {without_login(settings.data)} on {address}"),
    )
    return code


def _parameter(setting: Setting) -> inspect.Parameter:
    """An option of a setting; nothing given leaves it to the environment and the file."""
    kind = setting.kind
    shown = setting.default
    says = f"{setting.does} Default: {shown if shown not in ([], '') else 'none'}."
    names = _NAMES.get(setting.name, (setting.option,))
    if kind is bool:
        names = (f"{setting.option}/--no-{setting.name.replace('_', '-')}",)
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, typer.Option(*names, help=says)],
    )


def _config() -> inspect.Parameter:
    return inspect.Parameter(
        "config",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            Path | None,
            typer.Option("--config", metavar="FILE", help="Settings as TOML, by these names."),
        ],
    )


_parameters = [_config(), *map(_parameter, table())]
serve.__signature__ = inspect.Signature(_parameters)  # type: ignore[attr-defined]
serve.__annotations__ = {each.name: each.annotation for each in _parameters} | {"return": int}
