"""Finds versions that the index does not offer any more. Run by a node's Python before a rerun, from stdin.

`item` (JSON) comes first: packages [[name, version]], index_url, extra_index_url, find_links, options, env. It asks as pip
does: `pip index versions`, in this process, so that no address with a login is in an argv. Prints a line per finding:
"missing NAME VERSION", "yanked NAME VERSION REASON", "unknown REASON" (one: the rest cannot be asked), "asked COUNT".
Needs Python 3.6, pip 21.2.
"""
import contextlib
import io
import os
import re
import sys
import time

WAYS, LIMIT_S = 4, 50
OF_VENVS = ("pip", "setuptools", "wheel")  # ensurepip may put them into a new venv, whatever the index has


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def words():
    """The item's options for the location of packages, as words for pip."""
    pairs = [("--index-url", item.get("index_url"))] if item.get("index_url") else []
    pairs += [("--extra-index-url", url) for url in item["extra_index_url"]]
    pairs += [("--find-links", place) for place in item["find_links"]]
    found = [word for pair in pairs for word in pair]
    of_index = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--trusted-host", "--proxy", "--cert", "--client-cert")
    given = iter(item["options"])
    for option in given:
        name = option.split("=")[0]
        if option == "--no-index" or (name in of_index and "=" in option):
            found.append(option)
        elif option in of_index:
            found += [option, next(given, "")]
    return found


def same(a, b):
    try:
        from pip._vendor.packaging.version import Version
        return Version(a) == Version(b)
    except Exception:
        return a == b


def look(main, where, name, version):
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        status = main(["index", "versions", "-vv", "--no-color", "--no-input", "--disable-pip-version-check", "--retries", "1",
                       "--timeout", "10", "--pre"] + where + [name])
    said = text.getvalue()
    if status == 0:
        listed = re.search(r"^Available versions: (.*)$", said, re.M)
        if listed and any(same(v.strip(), version) for v in listed.group(1).split(",")):
            return None
        if not listed:
            return "unknown pip does not say which versions there are"
    if 'unknown command "index"' in said:
        return "unknown this pip is older than 21.2"
    failed = re.search(r"Could not fetch URL \S+: (?!404 )(.*?)(?: - skipping)?$", said, re.M)
    if failed:
        return "unknown " + re.sub(r"^.*object at 0x\w+>: ", "", failed.group(1)).strip("')(")
    for reason, file in re.findall(r"yanked(?: for reason)?: '?(.*?)'?: \S+/([^/\s#]+)", said):
        file = re.sub(r"(\.tar\.gz|\.zip|-[^-]+-[^-]+-[^-]+\.whl)$", "", file)
        match = re.match(r"(.+?)-(\d[^-]*)(-\d[^-]*)?$", file)
        if match and normal(match.group(1)) == normal(name) and same(match.group(2), version):
            return "yanked %s %s %s" % (name, version, reason)
    return "missing %s %s" % (name, version)


def ask(main, where, packages, until):
    """Writes each line in one piece, so that lines of several processes do not mix."""
    for name, version in packages:
        try:
            line = look(main, where, name, version) if time.time() < until else "unknown it takes too long"
        except BaseException as e:
            line = "unknown %s: %s" % (type(e).__name__, e)
        if line:
            os.write(1, (line.replace("\n", " ")[:300] + "\n").encode("utf-8", "replace"))
        if line and line.startswith("unknown"):
            return


def all_of_it():
    for place in item["find_links"]:
        if not re.match(r"[a-z+]+://|[/~]", place):
            print("unknown find_links %s is a folder of the job, which is not there yet" % place)
            return
    os.environ.update(item["env"])
    try:
        from pip._internal.cli.main import main
    except ImportError:
        print("unknown %s has no pip" % sys.executable)
        return
    packages = [p for p in item["packages"] if p[0] not in OF_VENVS]
    where, until, children = words(), time.time() + LIMIT_S, []
    for i in range(min(WAYS, len(packages))):
        pid = os.fork()
        if pid == 0:
            ask(main, where, packages[i::WAYS], until)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    print("asked %d" % len(packages))


all_of_it()
