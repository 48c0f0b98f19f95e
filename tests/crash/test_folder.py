"""Only one process may open a folder. Other processes learn which process has opened it, and a
forked process is refused."""

import asyncio
import os
import subprocess
import sys
import threading
from itertools import count
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


def test_the_error_of_a_second_process_names_the_pid_that_holds_the_folder(tmp_path: Path) -> None:
    with laurels.open(str(tmp_path)):
        other = subprocess.run(
            [sys.executable, "-c", _OPEN, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    assert other.stdout.split() == [str(os.getpid()), "locked"]


def test_a_second_open_in_one_process_is_refused_and_the_first_continues(tmp_path: Path) -> None:
    with laurels.open(str(tmp_path)) as lb:
        with pytest.raises(errors.Locked) as refused:
            laurels.open(str(tmp_path))
        assert refused.value.pid == os.getpid()
        lb.create(laurels.Board("gifts"))


def test_the_lock_ends_with_its_holder(tmp_path: Path) -> None:
    laurels.open(str(tmp_path)).close()
    with laurels.open(str(tmp_path)) as lb:
        assert lb.boards() == []


def test_use_after_a_fork_is_a_clear_error_and_the_parent_continues(tmp_path: Path) -> None:
    lb = laurels.open(str(tmp_path))
    lb.create(laurels.Board("gifts"))
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        codes = []
        for use in (lambda: lb.top("gifts"), lambda: lb.submit("gifts", "a", 1)):
            try:
                use()
            except laurels.LaurelsError as error:
                codes.append(error.code)
        lb.close()
        os.write(write_end, ",".join(codes).encode())
        os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    assert os.read(read_end, 100) == b"forked,forked"
    os.close(read_end)
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


def test_a_missing_folder_is_not_created_without_create(tmp_path: Path) -> None:
    missing = tmp_path / "nothing"
    with pytest.raises(errors.FolderMissing):
        laurels.open(str(missing), create=False)
    assert not missing.exists()


@pytest.mark.parametrize("url", ["redis://", "redis://host/boards", "gopher://x", "http://", ""])
def test_an_unknown_url_is_refused(url: str) -> None:
    with pytest.raises(errors.UnknownUrl):
        laurels.open(url)


def test_a_forked_child_does_not_keep_the_folder(tmp_path: Path) -> None:
    lb = laurels.open(str(tmp_path))
    done, finish = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(finish)
        os.read(done, 1)
        os._exit(0)
    lb.close()
    laurels.open(str(tmp_path)).close()
    os.close(finish)
    os.close(done)
    os.waitpid(child, 0)


def test_a_child_does_not_free_the_folder_its_parent_holds(tmp_path: Path) -> None:
    with laurels.open(str(tmp_path)):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(errors.Locked):
            laurels.open(str(tmp_path))


def test_closing_while_threads_write_loses_nothing_and_refuses_later_writes(tmp_path: Path) -> None:
    lb = laurels.open(str(tmp_path))
    lb.create(laurels.Board("gifts"))
    acknowledged: list[int] = []
    refused: list[str] = []
    busy = threading.Event()

    def write(thread: int) -> None:
        for i in count():
            try:
                lb.submit("gifts", f"{thread}-{i}", 1)
            except laurels.LaurelsError as error:
                refused.append(error.code)
                return
            acknowledged.append(i)
            if i == 20:
                busy.set()

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    assert busy.wait(60)
    lb.close()
    for thread in threads:
        thread.join(60)
    assert refused == ["closed"] * 4
    with laurels.open(str(tmp_path)) as again:
        assert again.top("gifts").total == len(acknowledged)
        again.check()


def test_tasks_that_write_while_the_store_closes_get_the_error_closed(tmp_path: Path) -> None:
    async def main() -> list[object]:
        lb = await laurels.open_async(str(tmp_path))
        await lb.create(laurels.Board("gifts"))
        writes = [asyncio.create_task(lb.submit("gifts", f"m{i}", 1)) for i in range(100)]
        closing = asyncio.create_task(lb.close())
        late = [asyncio.create_task(lb.submit("gifts", f"n{i}", 1)) for i in range(100)]
        answers = await asyncio.wait_for(
            asyncio.gather(*writes, *late, return_exceptions=True), timeout=60
        )
        await closing
        with pytest.raises(errors.Closed):
            await lb.submit("gifts", "z", 1)
        return list(answers)

    answers = asyncio.run(main())
    counted = sum(isinstance(answer, laurels.Receipt) for answer in answers)
    closed = sum(isinstance(answer, errors.Closed) for answer in answers)
    assert counted + closed == 200
    with laurels.open(str(tmp_path)) as again:
        assert again.top("gifts").total == counted


def test_a_folder_without_writes_opens_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        laurels.open(tmp_path / "boards").close()
    assert not caplog.records
