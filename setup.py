"""Copy rtl/ into the wheel as echo_sim/rtl. Everything else is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SOURCES = (".sv", ".svh", ".f", ".vlt", ".toml")


class BuildWithRtl(build_py):
    """Copies rtl/ beside the package; an editable installation finds it in the repository."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "echo_sim" / "rtl"
            shutil.rmtree(target, ignore_errors=True)
            for source in Path("rtl").rglob("*"):
                if source.suffix in SOURCES:
                    place = target / source.relative_to("rtl")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(source, place)


setup(cmdclass={"build_py": BuildWithRtl})
