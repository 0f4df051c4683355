"""The static checks themselves."""

import subprocess

from scripts.lint import ROOT, SCRATCH


def test_what_a_killed_check_leaves_is_no_part_of_the_tree() -> None:
    ignored = subprocess.run(
        ["git", "check-ignore", "--quiet", str(SCRATCH / "left.ys")], cwd=ROOT, check=False
    )
    assert ignored.returncode == 0
    beside = {path.suffix for path in (ROOT / "scripts").rglob("*") if path.is_file()}
    assert beside - {".pyc"} == {".py", ".txt"}
