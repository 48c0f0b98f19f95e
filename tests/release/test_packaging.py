"""What is released can be built and used: sdist → wheel → a clean environment."""

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

_TRY = """
import laurels
with laurels.open("memory:") as lb:
    lb.create(laurels.Board("gifts", windows=["all", "day:tz=Asia/Shanghai"]))
    assert lb.submit("gifts", "alice", 120).rank == 1
    assert lb.top("gifts").entries[0].member == "alice"
print(laurels.__version__)
"""


def _run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _compiler(folder: Path) -> str:
    """A C compiler that takes a third of the time: it need not make fast code here."""
    path = folder / "cc"
    path.write_text('#!/bin/sh\nexec cc "$@" -O0 -g0\n')
    path.chmod(0o755)
    return str(path)


def test_sdist_to_wheel_to_a_clean_environment(tmp_path: Path) -> None:
    built = tmp_path / "dist"
    _run(sys.executable, "-m", "build", "--sdist", "--outdir", built, ROOT, cwd=tmp_path)
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    assert any(name.endswith("engine/ranked_set.pyx") for name in names)
    assert any(name.endswith("LICENSE") for name in names)

    wheel_of = ("pip", "wheel", "--no-deps", "-w", built, sdist)
    _run(sys.executable, "-m", *wheel_of, cwd=tmp_path, CC=_compiler(tmp_path))
    (wheel,) = built.glob("*.whl")

    clean = tmp_path / "clean"
    venv.create(clean, with_pip=True)
    _run(clean / "bin" / "pip", "install", "--quiet", wheel, cwd=tmp_path)
    assert _run(clean / "bin" / "python", "-c", _TRY, cwd=tmp_path).strip()
    assert "import" in _run(clean / "bin" / "laurels", "--help", cwd=tmp_path)
    typed = clean.glob("lib/python*/site-packages/laurels/py.typed")
    assert list(typed)
