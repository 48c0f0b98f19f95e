"""How the engine is compiled: every `.pyx` of the package, with the same flags, on all cores."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

_FLAGS = ["-O3", "-fwrapv"]
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


class BuildOnAllCores(build_ext):
    def build_extensions(self) -> None:
        """Translates in processes, since Cython is not made for threads; compiles in threads,
        which only wait for compilers."""
        translated = cythonize(self.extensions, nthreads=_CORES, force=self.force)
        sources = {extension.name: extension.sources for extension in translated}
        for extension in self.extensions:
            extension.sources = sources[extension.name]
        self.parallel = self.parallel or _CORES
        super().build_extensions()


def _modules() -> list[Extension]:
    return [
        Extension(
            ".".join(source.with_suffix("").parts[1:]),
            [source.as_posix()],
            extra_compile_args=_FLAGS,
        )
        for source in sorted(Path("src").rglob("*.pyx"))
    ]


setup(cmdclass={"build_ext": BuildOnAllCores}, ext_modules=_modules())
