"""For scripts that need packages of Debian's own Python: another Python may come first in PATH."""

import importlib.util
import os
import sys

DEBIAN = "/usr/bin/python3"


def require(*packages):
    """Returns when the packages can be imported; otherwise starts the script again with Debian's
    Python, or ends the program when that is the one that lacks them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if not missing:
        return
    if os.path.exists(DEBIAN) and os.path.realpath(sys.executable) != os.path.realpath(DEBIAN):
        os.execv(DEBIAN, [DEBIAN, *sys.argv])
    packages = " ".join(f"python3-{name}" for name in missing)
    sys.exit(f"{os.path.basename(sys.argv[0])}: install {packages} (tools/setup does)")
