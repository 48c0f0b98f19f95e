"""What is released can be built and used: sdist → wheel → a clean environment."""

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

from Cython.Utils import GENERATED_BY_MARKER

import laurels
from tests.conftest import Scaled

ROOT = Path(__file__).parent.parent.parent
LATER = 4_102_444_800
"""The year 2100."""
ENGINE = Path(laurels.__file__).parent / "engine"

_CC = """\
#!/bin/sh
for part; do
  [ "$before" = -o ] && out=$part
  before=$part
done
case $out in
{made}
*.so) exec cp "{engine}/${{out##*/engine/}}" "$out" ;;
*) : > "$out" ;;
esac
"""

_TRY = """
import laurels
with laurels.open("memory:") as lb:
    lb.create(laurels.Board("gifts", windows=["all", "day:tz=Asia/Shanghai"]))
    assert lb.submit("gifts", "alice", 120).rank == 1
    assert lb.top("gifts").entries[0].member == "alice"
print(laurels.__version__)
"""


def _run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command that finds no packages but those of its own environment."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=inherited | environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _modules() -> list[Path]:
    """The sources of the engine's modules, the smallest first."""
    return sorted(ENGINE.rglob("*.pyx"), key=lambda source: source.stat().st_size)


def _compiler(folder: Path, compiled: int) -> str:
    """A compiler for so many of the engine's modules, without optimizing.

    For all others it hands out what the tests run; nor are they translated from Cython.
    """
    made = [f'*/{module.stem}.*) exec cc "$@" -O0 -g0 ;;' for module in _modules()[:compiled]]
    path = folder / "cc"
    path.write_text(_CC.format(made="\n".join(made), engine=ENGINE))
    path.chmod(0o755)
    return str(path)


def _leave_out_translation(translated: Path) -> None:
    """Write what Cython takes for its own, and newer than all that is included."""
    translated.write_text(GENERATED_BY_MARKER)
    os.utime(translated, (LATER, LATER))


def test_sdist_to_wheel_to_a_clean_environment(tmp_path: Path, scaled: Scaled) -> None:
    built = tmp_path / "dist"
    # The wheel is built from nothing but what the package asks for, too: once is enough.
    alone = scaled(0, 1)
    with_ours = () if alone else ("--no-isolation",)
    _run(
        sys.executable, "-m", "build", "--sdist", *with_ours, "--outdir", built, ROOT, cwd=tmp_path
    )
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path, filter="data")
    assert any(name.endswith("engine/tree/ranked_set.pyx") for name in names)
    assert any(name.endswith("LICENSE") for name in names)

    compiled = scaled(1, 1_000)
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    for module in _modules()[compiled:]:
        below = module.relative_to(ENGINE).with_suffix(".c")
        _leave_out_translation(source / "src/laurels/engine" / below)
    wheel_of = ("pip", "wheel", "--no-deps", "-w", built, source)
    cc = _compiler(tmp_path, compiled)
    _run(sys.executable, "-m", *wheel_of, cwd=tmp_path, CC=cc, LDSHARED=f"{cc} -shared")
    (wheel,) = built.glob("*.whl")

    clean = tmp_path / "clean"
    venv.create(clean)
    python = clean / "bin" / "python"
    _run(sys.executable, "-m", "pip", "--python", python, "install", "-q", wheel, cwd=tmp_path)
    assert _run(python, "-c", _TRY, cwd=tmp_path).strip()
    assert "import" in _run(clean / "bin" / "laurels", "--help", cwd=tmp_path)
    typed = clean.glob("lib/python*/site-packages/laurels/py.typed")
    assert list(typed)
