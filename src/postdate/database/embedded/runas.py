"""The system user that runs PostgreSQL, which refuses to be root."""

import os
import pwd
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from postdate.words.error import StartError

CANDIDATES: Final = ("postgres", "nobody")


class RunAs(NamedTuple):
    """A system user; `switch` says whether we must become it."""

    uid: int
    gid: int
    name: str
    switch: bool

    def popen(self) -> dict[str, Any]:
        """Return the arguments that make a child this user."""
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def hand_over(self, path: Path, mode: int) -> None:
        """Hand a file or directory over to this user, with this mode."""
        if self.switch:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
        path.chmod(mode)

    def can_access(self, test: str, path: Path) -> bool:
        """Try a `test` of the shell (-x, -r) as this user: modes, lists and mounts all count."""
        if not self.switch:
            return os.access(path, {"-x": os.X_OK, "-r": os.R_OK}[test])
        script = ["/bin/sh", "-c", f'test {test} "$1"', "sh", str(path)]
        # A fixed script: the path is its argument, never its text.
        done = subprocess.run(script, cwd="/", check=False, **self.popen())  # noqa: S603
        return bool(done.returncode == 0)


def choose(owner_uid: int | None) -> RunAs:
    """Choose who runs the server: ourselves, or as root the cluster's owner or a known user."""
    if os.geteuid() != 0:
        return RunAs(os.geteuid(), os.getegid(), str(os.geteuid()), switch=False)
    if owner_uid:
        return _by_uid(owner_uid)
    return _first(CANDIDATES)


def _by_uid(uid: int) -> RunAs:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return RunAs(uid, uid, str(uid), switch=True)
    return RunAs(uid, entry.pw_gid, entry.pw_name, switch=True)


def _first(names: Iterable[str]) -> RunAs:
    for name in names:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return RunAs(entry.pw_uid, entry.pw_gid, name, switch=True)
    raise StartError(
        "PostgreSQL does not run as root and there is no user postgres or nobody; "
        "create a user postgres, or start postdate as a normal user."
    )
