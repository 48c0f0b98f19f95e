"""How the engine is compiled: its modules side by side, on all cores.

What the modules are stands in pyproject.toml, which is enough by itself: without this file they are
compiled one after another.
"""

import os

from Cython.Build import cythonize
from setuptools import setup
from setuptools.command.build_ext import build_ext

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


setup(cmdclass={"build_ext": BuildOnAllCores})
