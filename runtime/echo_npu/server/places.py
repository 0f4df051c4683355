"""Where the device server listens."""

import os
import stat
from pathlib import Path
from typing import Final

SOCKET_VARIABLE: Final = "ECHO_NPU_SOCKET"


def socket_path() -> Path:
    """Return the path in `ECHO_NPU_SOCKET`, else the user's own one.

    That is echo-npu/server.sock in `XDG_RUNTIME_DIR`, or /tmp/echo-npu-<user>/server.sock without it.
    """
    given = os.environ.get(SOCKET_VARIABLE)
    if given:
        return Path(given)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime, "echo-npu") if runtime else Path(f"/tmp/echo-npu-{os.getuid()}")
    return folder / "server.sock"


def make_folder(path: Path) -> None:
    """Make the folder of a socket, for this user alone.

    Raises:
        PermissionError: it belongs to somebody else, or others may write to it.
    """
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = folder.stat()
    # In a folder with the sticky bit nobody replaces a file of somebody else, but for the folder's owner.
    sticky = facts.st_mode & stat.S_ISVTX
    if facts.st_uid != os.getuid() and not (facts.st_uid == 0 and sticky):
        raise PermissionError(f"the folder {folder} belongs to another user")
    if facts.st_mode & 0o022 and not sticky:
        raise PermissionError(f"the folder {folder} may be written by other users")
