"""Copy rtl/ into the wheel as echo_sim/rtl. Everything else is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRtl(build_py):
    """Copies rtl/ beside the package; an editable installation finds it in the repository."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "echo_sim" / "rtl"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree("rtl", target)


setup(cmdclass={"build_py": BuildWithRtl})
