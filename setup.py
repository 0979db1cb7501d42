"""The part in C, which is optional; everything else about the package is in pyproject.toml."""

from setuptools import Extension, setup

NATIVE = "gluonjit/native/"
SOURCES = ("module", "names", "value", "origins", "signatures", "capture", "slices", "arrays", "numbers", "hooks")

setup(
    ext_modules=[
        Extension(
            "gluonjit._fast",
            [f"{NATIVE}{name}.c" for name in SOURCES],
            extra_compile_args=["-O3"],
            depends=[f"{NATIVE}fast.h"],
            optional=True,  # without a compiler the package is installed all the same, and works in Python
        )
    ]
)
