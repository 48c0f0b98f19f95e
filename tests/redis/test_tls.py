"""TLS connections to index servers whose certificate was issued by a private authority."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from laurels import config
from laurels.errors import UnknownUrl
from laurels.errors.index_server import IndexUnavailable

from .programs import skip_or_fail
from .servers import Server, free_port
from .writing import BOARD, opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create two certificate authorities. The first one issues a certificate for a server on this
    machine."""
    if shutil.which("openssl") is None:
        skip_or_fail("openssl is not installed: apt-get install -y openssl")
    folder = tmp_path_factory.mktemp("tls")
    for name in ("ca", "other"):
        _openssl(
            folder,
            f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} "
            f"-keyout {name}.key -out {name}.pem",
        )
    _openssl(folder, "req -newkey rsa:2048 -nodes -subj /CN=server -keyout key.pem -out csr.pem")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    _openssl(
        folder,
        "x509 -req -in csr.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
        "-extfile names -out cert.pem",
    )
    return folder


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def place(folder: Path) -> Iterator[str]:
    """Return the address of a server that listens for TLS connections."""
    port = free_port()
    options = ["--tls-port", port, "--tls-auth-clients", "no"]
    for option, name in (("cert-file", "cert"), ("key-file", "key"), ("ca-cert-file", "ca")):
        options += [f"--tls-{option}", folder / f"{name}.pem"]
    try:
        server = Server(*map(str, options))
    except OSError:
        pytest.skip("the server was built without TLS")
    with server:
        yield f"127.0.0.1:{port}"


def test_boards_work_over_tls(folder: Path, place: str) -> None:
    with opened(f"rediss://{place}?ca={folder}/ca.pem") as lb:
        assert lb.submit(BOARD, "a", 1).rank == 1
    with opened(f"rediss://{place},127.0.0.1:{free_port()}?ca={folder}/ca.pem") as lb:
        assert lb.submit(BOARD, "a", 1).score == 2


@pytest.mark.parametrize("query", ["?ca={folder}/other.pem", ""])
def test_a_server_with_an_untrusted_certificate_is_refused(
    folder: Path, place: str, query: str
) -> None:
    with pytest.raises(IndexUnavailable):
        config.direct(f"rediss://{place}{query.format(folder=folder)}")


def test_a_certificate_for_another_name_is_refused(folder: Path, place: str) -> None:
    with pytest.raises(IndexUnavailable):
        config.direct(f"rediss://{place.replace('127.0.0.1', 'localhost')}?ca={folder}/ca.pem")


def test_a_tls_server_is_unavailable_without_tls(place: str) -> None:
    with pytest.raises(IndexUnavailable):
        config.direct(f"redis://{place}")


def test_the_error_names_missing_certificate_files(place: str) -> None:
    with pytest.raises(UnknownUrl, match="cannot be read"):
        config.direct(f"rediss://{place}?ca=/nowhere/ca.pem")
