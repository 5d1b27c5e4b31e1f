"""Started as `PYTHON -c TEXT N --FLAG=SINCE... ARG...`; becomes `PYTHON ARG...` unless its torch is too old for a flag.

SINCE is MAJOR * 100 + MINOR; N is the number of flags. If torch is too old, names each such flag and ends with status 2.
"""
import os
import re
import sys


def version():
    try:
        from importlib import metadata
    except ImportError:  # Python 3.7, whose last torch is 1.13
        return "1.13"
    try:
        return metadata.version("torch") or "?"  # damaged: then torchrun decides
    except metadata.PackageNotFoundError:
        print("rhrun: torch is not installed for %s" % sys.executable, file=sys.stderr)
        sys.exit(2)


count = int(sys.argv[1])
text = version()
found = re.match(r"(\d+)\.(\d+)", text)
have = int(found.group(1)) * 100 + int(found.group(2)) if found else 10 ** 6
late = [flag.rsplit("=", 1) for flag in sys.argv[2:2 + count]]
late = [(name, int(since)) for name, since in late if int(since) > have]
for name, since in late:
    print("rhrun: torch %s does not have %s; it came with %d.%d" % (text, name, since // 100, since % 100), file=sys.stderr)
if late:
    sys.exit(2)
os.execv(sys.executable, [sys.executable] + sys.argv[2 + count:])
