"""The type stubs of the engine agree with the compiled modules."""

import subprocess
import sys
from pathlib import Path

MADE_BY_CYTHON = r".*\.__(pyx_capi|test|(reduce|setstate)_cython)__"


def test_stubs_agree_with_the_extensions(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text(MADE_BY_CYTHON)
    command = ["-m", "mypy.stubtest", "laurels.engine", "--ignore-unused-allowlist", "--allowlist"]
    result = subprocess.run(
        [sys.executable, *command, allowed], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
