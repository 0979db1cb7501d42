"""The parts in C, which are optional; everything else about the package is in pyproject.toml."""

from setuptools import Extension, setup

NATIVE = "gluonjit/native/"
CAPTURE = ("value", "origins", "signatures", "guards", "capture", "replay", "bodies", "slices", "arrays", "numbers")
SOURCES = ("module", "names", *CAPTURE, "torch", "hooks", "functions")
ROWS = ("module", "check", "pack", "interpreter", "generic", "avx2", "avx512")
ROWS_HEADERS = ("rows", "kernels", "functions", "elements", "lines", "products", "updates")

setup(
    ext_modules=[
        Extension(
            "gluonjit._fast",
            [f"{NATIVE}{name}.c" for name in SOURCES],
            extra_compile_args=["-O3"],
            depends=[f"{NATIVE}fast.h"],
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
    ]
)
