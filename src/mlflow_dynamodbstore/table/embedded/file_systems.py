"""Whether a file lies on a file system that several hosts share.

SQLite's write-ahead log needs memory that all its users share, which those of different hosts do
not. On such a file system a table uses a rollback journal and file locks instead.
"""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")  # a space is \040

_SHARED = "afs beegfs ceph cifs davfs gfs2 glusterfs gpfs lustre nfs nfs4 ocfs2 orangefs panfs"
NETWORK_FILE_SYSTEMS = frozenset([*_SHARED.split(" "), "pvfs2", "smb3", "smbfs", "sshfs", "wekafs"])


def network_file_system(path: Path) -> str | None:
    """The type of the network file system that a file is on, or None; only Linux tells."""
    try:
        mounts = _MOUNTS.read_text()
    except OSError:
        return None
    return _shared_type(path.resolve(), mounts)


def _shared_type(path: Path, mounts: str) -> str | None:
    """The type of the innermost mount that holds a file, if it is one of the network's."""
    found, depth = "", -1
    for line in mounts.splitlines():
        fields = line.split(" ")
        point = Path(_ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), fields[4]))
        # Of two mounts on one folder, the later hides the earlier.
        if path.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = fields[fields.index("-") + 1], len(point.parts)
    kind = found.removeprefix("fuse.")
    return kind if kind in NETWORK_FILE_SYSTEMS else None
