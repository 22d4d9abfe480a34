"""Which file system a path is on: local only if that is known."""

from __future__ import annotations

import pytest

from holdfast.system import mounts

MOUNTS = r"""
21 27 0:20 / /sys rw,nosuid - sysfs sysfs rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 27 0:45 / /home rw,relatime - nfs4 server:/home rw,vers=4.2
32 27 254:9 / /home/local rw - xfs /dev/vdb rw
33 27 0:50 / /work rw master:2 - fuse.sshfs host: rw
34 27 0:51 / /with\040space rw - cifs //server/x rw
35 27 254:7 / /again rw - ext4 /dev/vdc rw
36 27 0:52 / /again rw - overlay overlay rw,lowerdir=/a,upperdir=/b
37 27 0:53 / /vm rw - virtiofs share rw
nonsense
38 27 0:54 /
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib/store", "ext4"),
        ("/homework", "ext4"),
        ("/home", "nfs4"),
        ("/home/me/repo/.holdfast", "nfs4"),
        ("/home/local/store", "xfs"),
        ("/work/store", "fuse.sshfs"),
        ("/with space/store", "cifs"),
        ("/again/store", "overlay"),
        ("/vm/store", "virtiofs"),
    ],
)
def test_the_deepest_and_last_mount_counts(path: str, kind: str) -> None:
    """A folder on a local disk below a network file system is local, and the other way round."""
    assert mounts.filesystem_type(MOUNTS, path) == kind


def test_without_a_mount_nothing_is_known() -> None:
    """Nothing is taken for local because the table is empty."""
    assert mounts.filesystem_type("", "/store") is None
