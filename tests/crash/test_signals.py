"""Ctrl-C and signal handlers: the store continues to work, and no caller waits forever."""

import signal
import subprocess
import sys
from pathlib import Path

import laurels

_CLOSES_IN_HANDLER = """
import os, signal, sys, threading, laurels
lb = laurels.open(sys.argv[1])
lb.create(laurels.Board("gifts"))

def stop(*_):
    lb.submit("gifts", "last", 1)
    lb.close()
    print("closed", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True:
    lb.submit("gifts", "m", 1)
"""

_INTERRUPTED = """
import itertools, os, signal, sys, threading, laurels
lb = laurels.open(sys.argv[1])
lb.create(laurels.Board("gifts"))
wrong = []
done = threading.Event()

def work(n):
    for i in itertools.count():
        if done.is_set():
            return
        try:
            lb.submit("gifts", f"w{n}", 1)
        except BaseException as error:
            wrong.append(repr(error))

def interrupt():
    for _ in range(300):
        if done.wait(0.002):
            return
        os.kill(os.getpid(), signal.SIGINT)
    done.set()

writing = False

def raises(*_):
    global writing
    if writing:  # outside of the loop below, no error would be caught
        writing = False
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, raises)
threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
threads.append(threading.Thread(target=interrupt))
for thread in threads:
    thread.start()
caught = 0
while not done.is_set():
    try:
        writing = True
        while not done.is_set():
            lb.submit("gifts", "main", 1)
        writing = False
    except KeyboardInterrupt:
        caught += 1
signal.signal(signal.SIGINT, signal.SIG_IGN)
for thread in threads:
    thread.join()
assert caught > 10, caught
assert not wrong, wrong[:3]
lb.check()
lb.close()
print("sound", flush=True)
"""

_MANY_WRITES_IN_HANDLERS = """
import signal, laurels
lb = laurels.open("memory:")
lb.create(laurels.Board("gifts"))
handled, inside = 0, False

def write(*_):
    global handled, inside
    if inside:
        return
    inside = True
    lb.submit("gifts", "handler", 1)
    handled += 1
    inside = False

signal.signal(signal.SIGALRM, write)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
written = 0
while handled < 2_000:
    lb.submit("gifts", "main", 1)
    written += 1
signal.setitimer(signal.ITIMER_REAL, 0, 0)
assert lb.standing("gifts", "handler").score == handled
assert lb.standing("gifts", "main").score == written
lb.close()
print("sound", flush=True)
"""


def test_a_signal_handler_may_write_at_any_moment() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _MANY_WRITES_IN_HANDLERS],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "sound\n"), done.stderr


def test_a_handler_may_write_and_close_while_the_main_thread_writes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CLOSES_IN_HANDLER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "closed\n")
    with laurels.open(tmp_path) as lb:
        assert lb.standing("gifts", "last") is not None
        lb.check()


def test_ctrl_c_interrupts_only_the_main_thread(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "sound\n"), done.stderr


def test_a_garbage_collected_store_unlocks_its_folder(tmp_path: Path) -> None:
    lb = laurels.open(tmp_path)
    lb.create(laurels.Board("gifts"))
    lb.submit("gifts", "ann", 1)
    del lb
    with laurels.open(tmp_path) as again:
        assert again.top("gifts").total == 1
