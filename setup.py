"""The compiled parts, which are optional; everything else about the package is in pyproject.toml."""

import os
import re

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError
from setuptools.modified import newer_group

NATIVE = "gluonjit/native/"
# Files in Cython's pure-Python mode that are compiled together; the first one is the module `_fast`.
with open("gluonjit/compiled.py", encoding="utf-8") as source:
    LISTED = re.search('_PARTS = """(.*?)"""', source.read(), re.DOTALL).group(1)
PARTS = ("graph/recorder", *[name.replace(".", "/") for name in LISTED.split()])
KERNELS = ("generic", "avx2", "avx512")
ROWS = ("module", "stretch", "check", "pack", "interpreter", "shared", "scratch", "crew", *KERNELS)
ROWS_HEADERS = ("rows", "stretch", "crew", "kernels", "functions", "elements", "lines", "products", "updates")
# Files in Cython's pure-Python mode, which are interpreted as they stand where this does not work.
FLAT = ("ordering", "paths", "placing", "searching")
HOT = (*[f"analysis/flat/{name}" for name in FLAT], "rows/tables", "rows/blocks")
OPTIMIZED = [] if "-O" in os.environ.get("CFLAGS", "") else ["-O3"]  # what the builder asks for comes first


class BuildWithCython(build_ext):
    """Turns files of Python into C when they are built, not before: a source distribution has what was written.

    Only what is older than its sources is built: C that was just written is newer than anything.
    """

    def run(self):
        self.in_tree = self.inplace  # setuptools builds elsewhere and copies, and says meanwhile that it is not
        super().run()

    def build_extension(self, extension):
        """Build one extension. Raises CompileError where Cython is needed and not there, or too old."""
        sources = [*extension.sources, *extension.depends]
        there = self.get_ext_filename(extension.name) if self.in_tree else self.get_ext_fullpath(extension.name)
        if not self.force and not newer_group(sources, there):
            return
        parts = [source for source in extension.sources if source.endswith(".py")]
        if parts:
            try:
                from Cython.Build import cythonize
                from Cython.Compiler.Errors import CompileError as CythonError
            except ImportError as error:
                raise CompileError(f"{extension.name} needs Cython: {error}") from error
            # Each is a module by itself, the first one under the name of the extension.
            names = [extension.name, *[part[:-3].replace("/", ".") for part in parts[1:]]]
            modules = [Extension(name, [part]) for name, part in zip(names, parts)]
            try:
                made = cythonize(modules, build_dir=self.build_temp, quiet=True, force=bool(self.force))
            except CythonError as error:
                raise CompileError(f"{extension.name} needs Cython 3: {error}") from error
            written = [source for source in extension.sources if source not in parts]
            extension.sources = [module.sources[0] for module in made] + written
        super().build_extension(extension)


setup(
    cmdclass={"build_ext": BuildWithCython},
    ext_modules=[
        Extension(
            "gluonjit._fast",
            [*[f"gluonjit/{name}.py" for name in PARTS], f"{NATIVE}tensors.c"],
            include_dirs=[NATIVE],
            extra_compile_args=OPTIMIZED,
            depends=[
                "gluonjit/_fast.pxd",
                "gluonjit/graph/inlined.pxd",
                *[f"gluonjit/{name}.pxd" for name in PARTS[1:]],
                *[f"{NATIVE}{name}.h" for name in ("slots", "stack")],
            ],
            optional=True,  # without a compiler the package is installed all the same, and works in Python
        ),
        Extension(
            "gluonjit._rows",
            [f"{NATIVE}rows/{name}.c" for name in ROWS],
            # Not -ffast-math: NaN and infinity have to come out as they do without it.
            extra_compile_args=[*OPTIMIZED, "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"],
            extra_link_args=["-pthread"],
            depends=[f"{NATIVE}rows/{name}.h" for name in ROWS_HEADERS],
            optional=True,
        ),
        *[
            Extension(
                f"gluonjit._{path.rpartition('/')[2]}",
                [f"gluonjit/{path}.py"],
                extra_compile_args=OPTIMIZED,
                depends=[
                    "gluonjit/_arrays.pxd",
                    *(["gluonjit/_placing.pxd"] if path.endswith("/placing") else []),
                ],
                optional=True,
            )
            for path in HOT
        ],
    ],
)
