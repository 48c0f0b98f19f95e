"""A folder belongs to one process: others are told who holds it, and a fork is told to go."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import laurels
from laurels import errors

_OPEN = """
import sys, laurels
try:
    laurels.open(sys.argv[1])
except laurels.errors.Locked as error:
    print(error.pid, error.code)
"""


def test_a_second_process_is_told_the_pid_that_holds_the_folder(tmp_path: Path) -> None:
    with laurels.open(str(tmp_path)):
        other = subprocess.run(
            [sys.executable, "-c", _OPEN, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    assert other.stdout.split() == [str(os.getpid()), "locked"]


def test_a_second_open_in_this_process_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with laurels.open(str(tmp_path)) as lb:
        with pytest.raises(errors.Locked) as refused:
            laurels.open(str(tmp_path))
        assert refused.value.pid == os.getpid()
        lb.create(laurels.Board("gifts"))


def test_the_lock_ends_with_its_holder(tmp_path: Path) -> None:
    laurels.open(str(tmp_path)).close()
    with laurels.open(str(tmp_path)) as lb:
        assert lb.boards() == []


def test_use_after_a_fork_is_a_clear_error_and_the_parent_goes_on(tmp_path: Path) -> None:
    lb = laurels.open(str(tmp_path))
    lb.create(laurels.Board("gifts"))
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        codes = []
        for use in (lambda: lb.top("gifts"), lambda: lb.submit("gifts", "a", 1)):
            try:
                use()
            except laurels.LaurelsError as error:
                codes.append(error.code)
        lb.close()
        os.write(tell, ",".join(codes).encode())
        os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    assert os.read(told, 100) == b"forked,forked"
    os.close(told)
    assert lb.submit("gifts", "a", 1).rank == 1
    lb.close()


def test_use_after_close_is_a_clear_error(tmp_path: Path) -> None:
    lb = laurels.open(str(tmp_path))
    lb.create(laurels.Board("gifts"))
    lb.close()
    lb.close()
    for use in (lambda: lb.top("gifts"), lambda: lb.submit("gifts", "a", 1), lb.boards):
        with pytest.raises(errors.Closed):
            use()


def test_a_missing_folder_is_not_made_when_told_so(tmp_path: Path) -> None:
    missing = tmp_path / "nothing"
    with pytest.raises(errors.FolderMissing):
        laurels.open(str(missing), create=False)
    assert not missing.exists()


@pytest.mark.parametrize("url", ["redis://localhost", "http://x", ""])
def test_a_url_of_no_known_deployment_is_refused(url: str) -> None:
    with pytest.raises(errors.UnknownUrl):
        laurels.open(url)
