"""Installs a pip or requirements item of set-up on a node, run as `PYTHON -c TEXT` by the python it installs for.

Its data is JSON in RHRUN_ITEM: marker, key, and packages or file, with upgrade, editable, options, index_url,
extra_index_url, find_links. The marker (written last) holds the key and the versions that the item left. If these are
still right, nothing is installed: so a verified item costs only a check, and an item that was killed is done again.
`beside` has the item's neighbours; the first `before` of them precede it. One command installs them with the item, so
that their versions are chosen together. Each then has its marker and, at its turn, costs only a check.
Next to the marker, the file `installed` lists all packages that this python sees then, for the lock of the run.
Needs Python 3.6. Uses uv if it is there and would do the same as pip, else pip.
"""
import sys

sys.path[:1] = [p for p in sys.path[:1] if p]  # no module of the working directory may replace one of the library

import importlib.util
import json
import os
import re
import site
import subprocess

item = json.loads(os.environ.pop("RHRUN_ITEM"))


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


# ---- installed packages ----


class Dist:
    """An installed package: the fields of the .dist-info or .egg-info in this folder."""

    def __init__(self, folder, info):
        self.folder, self.info = folder, os.path.join(folder, info)
        # the fields end at the first empty line: a description follows
        text = self.says("METADATA") or self.says("PKG-INFO") or self.says("")
        fields = re.findall(r"(?m)^(Name|Version|Requires-Dist):[ \t]*(.*?)[ \t]*$", text.split("\n\n", 1)[0])
        first = dict(reversed(fields))
        self.name, self.version = normal(first.get("Name", "")), first.get("Version", "")
        needs = [value for field, value in fields if field == "Requires-Dist"]
        needs += [] if needs else [line for line in self.says("requires.txt").splitlines() if not line.startswith("[")]
        self.needs = {name_of(line) for line in needs} - {None}

    def says(self, name):
        """The text of one of its files."""
        try:
            with open(os.path.join(self.info, name) if name else self.info, encoding="utf-8", errors="replace") as f:
                return f.read(1 << 20)
        except OSError:
            return ""

    def origin(self):
        """direct_url.json of a package that did not come from an index (PEP 610); {}: it did."""
        try:
            said = json.loads(self.says("direct_url.json") or "{}")
        except ValueError:
            said = {}
        return said if isinstance(said, dict) else {}


def dists():
    """Normal name -> Dist of all installed packages (PEP 376); the first on the path counts. Without importlib.metadata: it is
    not in every Python from 3.6 on, and takes longer than everything else here."""
    found = {}
    for folder in sys.path:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            if name.lower().endswith((".dist-info", ".egg-info")) or (name == "EGG-INFO" and folder.endswith(".egg")):
                dist = Dist(folder, name)
                if dist.name:
                    found.setdefault(dist.name, dist)
    return found


def name_of(requirement):
    """The project's name in "torch[x]>=2; marker"; None if there is none."""
    found = re.match(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:$|[\[<>=!~;@,( ])", requirement)
    return normal(found.group(1)) if found else None


def wanted(lines):
    """The names and the places (folders, URLs) that are requested."""
    names, places = set(), []
    for line in lines:
        name = name_of(line)
        if re.match(r"[a-z+]+://|[./]", line) or name is None:
            places.append(line)
        else:
            names.add(name)
    return names, places


def file_lines(path, depth=0):
    """Its lines, options too; an included file is replaced by its lines."""
    if depth > 16:
        return
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read().replace("\\\n", " ")
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        nested = re.match(r"(?:-r\s*|--requirement[\s=]\s*)(.+)", line)
        if nested:
            inner = os.path.join(os.path.dirname(path), nested.group(1).strip())
            for one in file_lines(inner, depth + 1):
                yield one
        elif line:
            yield line


def requirement_lines(one):
    """The requirement lines of an item."""
    for line in one["packages"] if "packages" in one else file_lines(one["file"]):
        line = re.sub(r"^(-e|--editable)[\s=]\s*", "", line)
        if not line.startswith("-"):
            yield line.split(" --")[0]


def is_place(url, places):
    if not url:
        return False
    path = url[7:] if url.startswith("file://") else None
    for place in places:
        folder = os.path.realpath(re.sub(r"\[[^]]*\]$", "", place))
        if (path and os.path.realpath(path) == folder) or url in place:
            return True
    return False


def changes(before, after):
    """The names of packages that are new, or have another version."""
    return {n for n, d in after.items() if n not in before or before[n].version != d.version}


def left(one, changed, after, together):
    """name -> version of the requested packages and all that they need; of all packages, if that cannot be determined."""
    names, places = wanted(requirement_lines(one))
    from_places = {n for n, d in after.items() if is_place(d.origin().get("url"), places)} if places else set()
    if places and not from_places and not changed:
        return {n: d.version for n, d in after.items()}
    if together and len(from_places) >= len(places):
        changed = set()  # by the others, or needed by its own packages
    todo, seen = list(names | from_places | changed), set()
    while todo:
        name = todo.pop()
        if name in after and name not in seen:
            seen.add(name)
            todo.extend(after[name].needs)
    return {n: after[n].version for n in seen}


# ---- the marker ----


def as_installed(one, now):
    try:
        with open(one["marker"], encoding="utf-8") as f:
            mark = json.load(f)
        same = mark["key"] == one["key"] and all(n in now and now[n].version == v for n, v in mark["left"].items())
        return mark["left"] if same else None
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None


def write_marker(one, versions):
    temporary = "%s.%d" % (one["marker"], os.getpid())
    with open(temporary, "w", encoding="utf-8") as f:
        json.dump({"key": one["key"], "left": versions}, f, sort_keys=True)
        f.flush()
        os.fsync(f.fileno())
    os.rename(temporary, one["marker"])


def remove_marker(one):
    os.makedirs(os.path.dirname(one["marker"]), mode=0o700, exist_ok=True)
    if os.path.exists(one["marker"]):
        os.unlink(one["marker"])


# ---- neighbours ----


def fits(one):
    """Whether it means the same in a command with others. A file with options (an index, hashes, constraints) does not; nor
    does a missing file."""
    try:
        lines = list(file_lines(one["file"])) if "file" in one else []
        return not any(re.match(r"-(?!e\b|-editable\b)|\S.*\s--", line) for line in lines)
    except OSError:
        return False


def group(now):
    """The item and the neighbours that its command installs. Unchanged neighbours are named too, so that this item's versions
    suit them, unless that would install them again: a folder or an address would be built again."""
    if not fits(item):
        return [item]
    found, before = [], item.get("before", 0)
    for i, one in enumerate(item.get("beside", [])):
        if i == before:
            found.append(item)
        kept = bool(as_installed(one, now))
        if fits(one) and not (kept and (item.get("upgrade") or wanted(requirement_lines(one))[1])):
            found.append(dict(one, kept=kept))
    return found if item in found else found + [item]


# ---- the packages, for the lock ----

LIST_MAX = 4 << 20


def without_login(url):
    return re.sub(r"^([a-z+]+://)[^/@]*@(?=.)", r"\1", url) if not re.match(r"(git\+)?ssh://", url) else url


def downloads(path):
    """name -> (version, hash), from pip's report."""
    try:
        with open(path, encoding="utf-8") as f:
            items = json.load(f)["install"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    found = {}
    for one in items:
        info = one.get("download_info", {})
        archive = info.get("archive_info") or {}
        digest = (archive.get("hashes") or {}).get("sha256")
        found[normal(one["metadata"]["name"])] = (one["metadata"]["version"], digest)
    return found


def source_of(dist):
    """From direct_url.json (PEP 610): the address, and for a repository the commit; {}: it came from an index."""
    try:
        said = dist.origin()
        url = said.get("url")
        if not url:
            return {}
        one = {"url": without_login(url)}
        if "vcs_info" in said:
            one["url"] = "%s+%s@%s" % (said["vcs_info"]["vcs"], one["url"], said["vcs_info"]["commit_id"])
        if said.get("subdirectory"):
            one["url"] += "#subdirectory=" + said["subdirectory"]
        if said.get("dir_info", {}).get("editable"):
            one["editable"] = True
        digest = (said.get("archive_info", {}).get("hashes") or {}).get("sha256")
        if digest:
            one["sha256"] = digest
        if "dir_info" in said and url.startswith("file://"):
            from urllib.parse import unquote

            place = os.path.relpath(unquote(url[7:]), os.path.realpath("."))
            if place != ".." and not place.startswith("../"):  # in the working directory, wherever that is
                one["folder"] = place
                del one["url"]
        return one
    except (ValueError, KeyError, AttributeError, TypeError):
        return {}


def packages(report, before, after):
    """Each package that this python sees; keeps the facts of earlier items: hashes, and which packages are ours."""
    path = os.path.join(os.path.dirname(item["marker"]), "installed")
    brought, ours = downloads(report), set()
    try:
        with open(path, encoding="utf-8") as f:
            for one in json.load(f)["packages"]:
                if not one.get("system"):
                    ours.add(one["name"])
                if one.get("sha256"):
                    brought.setdefault(normal(one["name"]), (one["version"], one["sha256"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    found, folders, own = [], {}, os.path.realpath(sys.prefix) + os.sep
    for name, dist in sorted(after.items()):
        one = {"name": name, "version": dist.version}
        one.update(source_of(dist))
        there = name in before and before[name].version == dist.version and name not in ours
        if dist.folder not in folders:
            folders[dist.folder] = os.path.realpath(dist.folder)
        inside = is_venv() and (folders[dist.folder] + os.sep).startswith(own)
        if dist.says("INSTALLER").strip() == "conda" or not (inside if is_venv() else not there):
            one["system"] = True
        digest = brought.get(name)
        if digest and digest[0] == dist.version and digest[1]:
            one.setdefault("sha256", digest[1])
        found.append(one)
    return found


def write_installed(report, before, after):
    """A failure here does not fail the installation."""
    path = os.path.join(os.path.dirname(item["marker"]), "installed")
    try:
        text = json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "implementation": sys.implementation.name,
                           "packages": packages(report, before, after)})
        if len(text) > LIST_MAX:
            return
        temporary = "%s.%d" % (path, os.getpid())
        with open(temporary, "w", encoding="utf-8") as f:
            f.write(text + "\n")
            f.flush()
            os.fsync(f.fileno())
        os.rename(temporary, path)
    except Exception as e:
        print("rhrun: what is installed cannot be noted for the lock: %s" % e, file=sys.stderr)


# ---- the tool ----


def is_venv():
    return sys.prefix != getattr(sys, "base_prefix", sys.prefix) or os.path.isdir(os.path.join(sys.prefix, "conda-meta"))


def sees_system():
    try:
        with open(os.path.join(sys.prefix, "pyvenv.cfg"), encoding="utf-8") as f:
            return re.search(r"^include-system-site-packages\s*=\s*true", f.read(), re.M | re.I) is not None
    except OSError:
        return False


def pip_is_configured():
    """Whether pip's settings name an index that uv, which does not read them, does not know."""
    of_uv = ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_CONFIG_FILE")
    if any(os.environ.get(n) for n in of_uv):
        return False
    home = os.path.expanduser("~")
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    if any(os.path.exists(p) for p in (os.path.join(config, "uv/uv.toml"), "/etc/uv/uv.toml")):
        return False
    if any(os.environ.get(n) for n in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX")):
        return True
    own = [os.path.join(home, ".pip/pip.conf"), os.path.join(config, "pip/pip.conf"), os.path.join(sys.prefix, "pip.conf")]
    if os.environ.get("PIP_CONFIG_FILE") == os.devnull:  # pip reads no file then
        return False
    for name in [os.environ.get("PIP_CONFIG_FILE"), "/etc/xdg/pip/pip.conf", "/etc/pip.conf"] + own:
        try:
            with open(name or "", encoding="utf-8", errors="replace") as f:
                if re.search(r"^\s*(extra-index-url|index-url|find-links|no-index)\s*[=:]", f.read(), re.M):
                    return True
        except OSError:
            pass
    return False


def find_uv():
    home = os.path.expanduser("~")
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep) + [os.path.join(home, ".local/bin"), os.path.join(home, ".cargo/bin")]
    names = [os.path.abspath(os.path.join(folder, "uv")) for folder in folders]
    return next((name for name in names if os.path.isfile(name) and os.access(name, os.X_OK)), None)


def runs(argv):
    try:
        return subprocess.call(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def find_pip():
    """pip for this python: its own, or one of the system's that takes --python (22.3 and later)."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    base = os.path.join(getattr(sys, "base_exec_prefix", sys.exec_prefix), "bin", "python3")
    if runs([base, "-m", "pip", "--python", sys.executable, "--version"]):
        return [base, "-m", "pip", "--python", sys.executable]
    return None


def what(items):
    """The tool's arguments for the packages to install."""
    words = ["--upgrade"] if item.get("upgrade") else []
    words += item.get("options", [])
    for one in items:
        for package in one.get("packages", []):
            words += ["-e"] if one.get("editable") and re.match(r"\.|[a-z]+\+", package) else []
            words.append(package)
        words += ["-r", one["file"]] if "file" in one else []
    return words


def indexes():
    """Indexes go through a file of options: they add to the node's settings, and are in no argv."""
    lines = ["--index-url " + item["index_url"]] if item.get("index_url") else []
    lines += ["--extra-index-url " + url for url in item.get("extra_index_url", [])]
    lines += ["--find-links " + (os.path.abspath(p) if os.path.exists(p) else p) for p in item.get("find_links", [])]
    if not lines:
        return []
    path = item["marker"] + ".options"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write("\n".join(lines) + "\n")
    return ["-r", path]


def uv_replaces_system(argv, now):
    """Whether uv would install a package that is there already. In a venv it does not see the system's packages."""
    look = argv + ["--dry-run"]
    done = subprocess.run(look, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    brings, removes = (re.findall(r"^ \%s ([^\s=@]+)" % sign, done.stdout, re.M) for sign in "+-")
    return done.returncode == 0 and any(normal(name) in now for name in brings if name not in removes)


def reporting(now, report):
    """Options for pip's own report of what it installs, if this pip has them (23.0)."""
    version = re.match(r"(\d+)", now["pip"].version) if "pip" in now else None
    return ["--report", report] if version and int(version.group(1)) >= 23 else []


def tool(now, items, report):
    options = indexes()
    uv, pip = find_uv(), find_pip()
    managed = not is_venv() and os.path.exists(os.path.join(os.path.dirname(os.__file__), "EXTERNALLY-MANAGED"))
    override = ["--break-system-packages"] if managed else []
    plain = not item.get("options") and is_venv() and not pip_is_configured()
    if uv and (plain or not pip):
        argv = [uv, "pip", "install", "--python", sys.executable] + override + what(items) + options
        os.environ.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")  # one index is as good as another, as for pip
        if not (pip and sees_system() and uv_replaces_system(argv, now)):
            return argv
    if pip:
        os.environ.setdefault("PIP_ROOT_USER_ACTION", "ignore")
        noted = (reporting(now, report) if pip[0] == sys.executable else []) + ["--no-warn-conflicts"]
        return pip + ["install", "--disable-pip-version-check", "--no-input"] + noted + override + what(items) + options
    sys.exit("rhrun: %s has no pip, and there is no uv (apt-get install python3-pip python3-venv)" % sys.executable)


def conflicts(changed, after):
    """Prints the packages that no longer suit others, in pip's words. pip itself checks all packages after each installation,
    which takes a quarter of its time (so --no-warn-conflicts). Here it checks only if an old package needs a changed one."""
    if not any(d.needs & changed for n, d in after.items() if n not in changed) or not importlib.util.find_spec("pip"):
        return
    check = subprocess.run([sys.executable, "-m", "pip", "check", "--disable-pip-version-check"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, universal_newlines=True)
    for line in check.stdout.splitlines() if check.returncode else []:
        if changed & {normal(word.strip(".,")) for word in line.split()}:
            print("rhrun: packages at odds: " + line, file=sys.stderr)


def unreachable():
    """After a failure: names the indexes that do not even answer."""
    import socket
    import urllib.parse

    urls = ([item["index_url"]] if item.get("index_url") else []) + item.get("extra_index_url", [])
    for url in urls + [link for link in item.get("find_links", []) if "://" in link]:
        where = urllib.parse.urlsplit(url)
        if where.scheme not in ("http", "https") or any(k.lower() == where.scheme + "_proxy" for k in os.environ):
            continue
        try:
            socket.create_connection((where.hostname, where.port or (443 if where.scheme == "https" else 80)), 5).close()
        except (OSError, UnicodeError) as e:
            print("rhrun: the package index %s://%s cannot be reached from this node: %s" %
                  (where.scheme, where.netloc.rpartition("@")[2], e.strerror or e), file=sys.stderr)


def main():
    now = dists()
    versions = as_installed(item, now)
    if versions:
        some = ", ".join("%s %s" % one for one in sorted(versions.items())[:20])
        print("as installed: %s%s" % (some, " ..." if len(versions) > 20 else ""))
        write_installed("", now, now)
        return 0
    items = group(now)
    for one in items:
        if not one.get("kept"):
            remove_marker(one)
    report = item["marker"] + ".report"
    argv = tool(now, items, report)
    sys.stdout.flush()
    status = subprocess.call(argv)
    try:
        os.unlink(item["marker"] + ".options")
    except OSError:
        pass
    if status:
        unreachable()
        return status if status > 0 else 128 - status
    importlib.invalidate_caches()
    site.main()  # for new folders and .pth files
    after = dists()
    changed = changes(now, after)
    conflicts(changed, after)
    write_installed(report, now, after)
    if os.path.exists(report):
        os.unlink(report)
    for one in sorted(items, key=lambda one: one is item):  # its own last
        write_marker(one, left(one, changed, after, len(items) > 1))
    return 0


sys.exit(main())
