"""The compiled parts, which are optional; everything else about the package is in pyproject.toml."""

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

NATIVE = "gluonjit/native/"
CAPTURE = ("origins", "signatures", "guards", "capture", "bodies", "slices", "arrays")
SOURCES = ("module", "names", "modes", *CAPTURE, "torch", "doors", "signs", "cells", "operators", "hooks", "functions")
ROWS = ("module", "check", "pack", "interpreter", "generic", "avx2", "avx512")
ROWS_HEADERS = ("rows", "kernels", "functions", "elements", "lines", "products", "updates")
# Files in Cython's pure-Python mode, which are interpreted as they stand where this does not work.
HOT = ("rewriting", "ordering", "paths", "placing")


class BuildWithCython(build_ext):
    """Turns files of Python into C when they are built, not before: a source distribution has what was written."""

    def build_extension(self, extension):
        """Build one extension. Raises CompileError where Cython is needed and not there, or too old."""
        if extension.sources[0].endswith(".py"):
            try:
                from Cython.Build import cythonize
                from Cython.Compiler.Errors import CompileError as CythonError
            except ImportError as error:
                raise CompileError(f"{extension.name} needs Cython: {error}") from error
            try:
                made = cythonize([extension], build_dir=self.build_temp, quiet=True, force=bool(self.force))
            except CythonError as error:
                raise CompileError(f"{extension.name} needs Cython 3: {error}") from error
            extension.sources = made[0].sources
        super().build_extension(extension)


setup(
    cmdclass={"build_ext": BuildWithCython},
    ext_modules=[
        Extension(
            "gluonjit._fast",
            ["gluonjit/graph/recorder.py", *[f"{NATIVE}{name}.c" for name in SOURCES]],
            include_dirs=[NATIVE],
            extra_compile_args=["-O3"],
            depends=["gluonjit/_fast.pxd", f"{NATIVE}fast.h"],
            optional=True,  # without a compiler the package is installed all the same, and works in Python
        ),
        Extension(
            "gluonjit._rows",
            [f"{NATIVE}rows/{name}.c" for name in ROWS],
            # Not -ffast-math: NaN and infinity have to come out as they do without it.
            extra_compile_args=["-O3", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"],
            depends=[f"{NATIVE}rows/{name}.h" for name in ROWS_HEADERS],
            optional=True,
        ),
        *[
            Extension(
                f"gluonjit._{name}",
                [f"gluonjit/analysis/flat/{name}.py"],
                extra_compile_args=["-O3"],
                optional=True,
            )
            for name in HOT
        ],
    ],
)
