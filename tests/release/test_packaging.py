"""A release can be built and used: an sdist, a wheel from it, and an installation in a clean
environment."""

import ast
import os
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from Cython.Utils import GENERATED_BY_MARKER
from packaging.requirements import Requirement

import laurels
from tests.conftest import Scaled

ROOT = Path(__file__).parent.parent.parent
LATER = 4_102_444_800
"""The start of the year 2100."""
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
    """Run a command that can import only the packages of its own environment. Return its output."""
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
    """Return the source files of the engine's modules, smallest first."""
    return sorted(ENGINE.rglob("*.pyx"), key=lambda source: source.stat().st_size)


def _compiler(folder: Path, compiled: int) -> str:
    """Return a compiler that compiles only the first `compiled` modules of the engine, without
    optimization. For each other module, it copies the binary that the tests use. So Cython need not
    translate this module."""
    made = [f'*/{module.stem}.*) exec cc "$@" -O0 -g0 ;;' for module in _modules()[:compiled]]
    path = folder / "cc"
    path.write_text(_CC.format(made="\n".join(made), engine=ENGINE))
    path.chmod(0o755)
    return str(path)


def _leave_out_translation(translated: Path) -> None:
    """Write the file into which Cython would translate a module. It is newer than all sources of
    the module, so Cython does not translate the module again."""
    translated.write_text(GENERATED_BY_MARKER)
    os.utime(translated, (LATER, LATER))


def _needed(requirements: list[str]) -> Iterator[Distribution]:
    """Yield the installed packages that satisfy the requirements, and the packages that these
    depend on."""
    for each in map(Requirement, requirements):
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            package = distribution(each.name)
            yield package
            yield from _needed(package.requires or [])


def _requirements_of(clean: Path) -> list[str]:
    """Return the requirements of laurels as it is installed in the clean environment."""
    (about,) = clean.glob("lib/python*/site-packages/laurels-*.dist-info")
    return Distribution.at(about).requires or []


def _lend(clean: Path, requirements: list[str]) -> None:
    """Let an environment import the packages that are installed for the tests, but only the
    required ones."""
    (packages,) = clean.glob("lib/python*/site-packages")
    for lent in _needed(requirements):
        parts = {file.parts[0] for file in lent.files or [] if file.parts[0] != ".."}
        for part in parts - {"__pycache__"}:
            if not (packages / part).exists():
                (packages / part).symlink_to(Path(str(lent.locate_file(part))))


def test_build_requirements_match_the_imports_of_setup_py() -> None:
    program = ast.parse((ROOT / "setup.py").read_text("utf-8"))
    imports = (node for node in ast.walk(program) if isinstance(node, ast.ImportFrom))
    imported = {(node.module or "").partition(".")[0].lower() for node in imports}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    required = {Requirement(each).name for each in project["build-system"]["requires"]}
    assert imported - set(sys.stdlib_module_names) == required


def test_a_wheel_from_the_sdist_works_in_a_clean_environment(
    tmp_path: Path, scaled: Scaled
) -> None:
    built = tmp_path / "dist"
    # In `make torture`, pip installs all required packages. Otherwise the test uses the installed
    # ones, because pip would take as long as the rest of the test.
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
    with_our_tools = () if alone else ("--no-build-isolation",)
    wheel_of = ("pip", "wheel", "--no-deps", *with_our_tools, "-w", built, source)
    cc = _compiler(tmp_path, compiled)
    _run(sys.executable, "-m", *wheel_of, cwd=tmp_path, CC=cc, LDSHARED=f"{cc} -shared")
    (wheel,) = built.glob("*.whl")

    clean = tmp_path / "clean"
    venv.create(clean)
    python = clean / "bin" / "python"
    _run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile"),
        *(() if alone else ("--no-deps",)),
        wheel,
        cwd=tmp_path,
    )
    if not alone:
        _lend(clean, _requirements_of(clean))
    assert _run(python, "-c", _TRY, cwd=tmp_path).strip()
    assert "import" in _run(clean / "bin" / "laurels", "--help", cwd=tmp_path)
    typed = clean.glob("lib/python*/site-packages/laurels/py.typed")
    assert list(typed)
