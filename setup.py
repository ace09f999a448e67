"""Wheels carry compiled kernels: one wheel per platform, for every Python."""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py


class BuildWithKernels(build_py):
    """Copies the sources, and compiles the kernels beside them, except in an editable install."""

    def run(self) -> None:
        """Build the package."""
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib).resolve() / "castleguard" / "kernels" / "native" / "lib"
            folder.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "castleguard.kernels.native.build", "--into", str(folder)]
            subprocess.run(command, env={**os.environ, "PYTHONPATH": str(Path("src").resolve())}, check=True)


class PlatformPackage(Distribution):
    """A package with machine code."""

    def has_ext_modules(self) -> bool:
        """The wheel is for one platform."""
        return True


class PlatformWheel(bdist_wheel):
    """A wheel for any Python on one platform: the compiled kernels do not use Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Tags of the file name."""
        return "py3", "none", super().get_tag()[2]


setup(distclass=PlatformPackage, cmdclass={"build_py": BuildWithKernels, "bdist_wheel": PlatformWheel})
