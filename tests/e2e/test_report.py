"""rhrun report: runs as one page. The tests check the page's content as data. In a real browser they check that the page works, and that
text of a log can do nothing in it."""
import base64
import csv
import hashlib
import html.parser
import io
import json
import re
import stat
import subprocess

import pytest

import browser
from harness import ROOT

EVIL = "</script><script>document.title='evil'</script><img src=x onerror=\"document.title='evil'\">"
FAILS = """name: fails
params: {lr: 1e-3, note: {type: string, default: "%s"}}
setup: [{name: data, run: "echo prepared >out; echo prepared", creates: out}]
distributed: {nnodes: 2, nproc_per_node: 2, max_restarts: 1}
metrics: [{name: loss, pattern: 'step (?<step>\\d+) loss=(?<value>\\S+)'}]
entrypoint:
  run: |
    i=0
    while [ $i -lt 40 ]; do
        i=$((i + 1))
        echo "step $i loss=0.$((50 - i))$RANK"
    done
    [ $RANK != 2 ] || cat "$HOME/evil" >&2
    [ $RANK != 2 ] || exit $((3 * (1 - TORCHELASTIC_RESTART_COUNT)))
""" % EVIL.replace('"', '\\"')


@pytest.fixture
def fails(rhrun, job, box):
    """A run whose rank 2 printed hostile text, and failed; it ended well after a restart."""
    (box.home / "evil").write_bytes(b"Traceback\n" + EVIL.encode() + b"\n\x1b[2J\x1b]0;evil\x07bell \xff\xfe bytes\n" + b"x" * (1 << 20) + b"\n")
    spec = job(FAILS)
    rhrun(spec).ok()
    return spec


def data(rhrun, *runs):
    return json.loads(rhrun("report", *runs, "--json").ok().out)["runs"]


def params(run, point):
    """Of a point: name -> value. Names stand once in a run."""
    flat = point[6]
    return {run["names"][flat[i]]: flat[i + 1] for i in range(0, len(flat), 2)}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=False)
        self.elements, self.inside, self.texts, self.policy = [], None, [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        if attrs.get("http-equiv") == "Content-Security-Policy":
            self.policy = attrs["content"]
        if tag in ("script", "style"):
            self.inside = (tag, attrs)
            self.texts.append((tag, attrs, ""))

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, text):
        if self.inside:
            self.texts[-1] = (*self.texts[-1][:2], self.texts[-1][2] + text)


def test_what_a_run_did(rhrun, fails):
    (run,) = data(rhrun, fails)
    steps = [run["steps"][a[0]] for a in run["attempts"]]
    assert sorted(steps) == ["data"] * 2 + ["launch"] * 4
    assert [(a[2], a[3], a[6], a[7]) for a in run["attempts"] if a[12] & 2] == [(1, "failed", "exit status 3", 2)]
    assert all(0 <= a[4] <= a[5] for a in run["attempts"])
    assert run["status"] == "done" and run["restarts"] == 1
    assert [e[1] for e in run["events"]] == ["restart"]
    ranks = {r[0]: r for r in run["ranks"]}
    assert {r: ranks[r][3] for r in ranks} == {0: 0, 1: 0, 2: 1, 3: 1}
    assert [ranks[r][6] for r in range(4)] == [40] * 4 and ranks[2][7] == 4
    (point,) = run["points"]
    assert params(run, point)["lr"] == "1e-3" and point[7] == [run["names"].index("loss"), "0.1", 0, 40]
    loss = {(c["generation"], c["rank"]): c["data"] for c in run["curves"]}
    assert sorted(loss) == [(g, r) for g in (1, 2) for r in range(4)]
    assert loss[2, 3][0] == list(range(1, 41)) and loss[2, 3][2][0] == 0.493
    (failed,) = [log for log in run["logs"] if run["attempts"][log["attempt"]][12] & 2]
    texts = [line[4] for line in failed["lines"]]
    assert EVIL in texts and "bell  bytes" in texts
    assert max(map(len, texts)) <= 1000 and any(len(line) > 5 and line[5] == 1 << 20 for line in failed["lines"])


def test_the_page_is_one_file_that_only_its_owner_reads(rhrun, fails, box):
    to = box.work / "report.html"
    rhrun("report", fails, "-o", to).ok()
    assert stat.S_IMODE(to.stat().st_mode) == 0o600
    text = to.read_text()
    page = Page(text)
    assert not [t for t in page.elements if set(t[1]) & {"src", "href", "srcset", "style"} or any(k.startswith("on") for k in t[1])]
    assert "<img" not in text
    license = (ROOT / "third_party/uplot/LICENSE").read_text()
    assert license in text and "--" not in license # it stands in a comment
    (found,) = [t for t in page.texts if t[1].get("type") == "application/json"]
    assert json.loads(found[2])["runs"] == data(rhrun, fails)
    # the policy names exactly the programs and styles that are there
    digests = {"'sha256-" + base64.b64encode(hashlib.sha256(t[2].encode()).digest()).decode() + "'" for t in page.texts if t is not found}
    assert set(re.findall(r"'sha256-[^']*'", page.policy)) == digests
    assert page.policy.startswith("default-src 'none'; ") and "unsafe" not in page.policy and "http" not in page.policy
    assert rhrun("report", fails).ok().out.startswith("<!doctype html>")


def test_several_runs_and_what_they_kept(rhrun, job, fails):
    rhrun(fails, "-p", "lr=1e-2").ok()
    ids = [r["run"] for r in rhrun("runs", fails, "--json").ok().json()]
    runs = data(rhrun, *ids)
    assert [params(r, r["points"][0])["lr"] for r in runs] == ["1e-2", "1e-3"]
    kept = [a for a in runs[0]["attempts"] if a[3] == "kept"]
    assert len(kept) == 2 and {a[10] for a in kept} == {ids[1]} and all(runs[0]["steps"][a[0]] == "data" for a in kept)
    assert "was named before" in rhrun("report", ids[0], ids[0]).expect(2).err
    assert "no-such-run" in rhrun("report", ids[0], "no-such-run").expect(2).err


def test_the_points_of_a_sweep(rhrun, job, box):
    spec = job("""name: s
params: {lr: 1, kind: a, seed: 7}
sweep: {matrix: {lr: [1, 2], kind: [a, "b'c"]}, per_node: 2}
distributed: {nproc_per_node: 2}
metrics: [{name: loss, pattern: 'loss=(?<value>\\S+)'}]
entrypoint:
  run: |
    for i in 1 2 3; do echo loss=$i.${{ params.lr }}$RANK; done
    [ $RANK = 1 ] || [ "${{ point }}" != "lr=2,kind=a" ] || touch "$HOME/said"
    while [ "${{ point }}" = "lr=2,kind=a" ] && [ ! -e "$HOME/said" ]; do sleep 0.02; done
    [ $RANK = 0 ] || [ "${{ point }}" != "lr=2,kind=a" ] || [ -e "$HOME/go" ] || { echo wrong >&2; exit 3; }
""")
    rhrun(spec).expect(1)
    (run,) = data(rhrun, spec)
    points = {p[0]: p for p in run["points"]}
    assert len(points) == 4 and {p[1] for n, p in points.items() if n != "lr=2,kind=a"} == {"done"}
    bad = points["lr=2,kind=a"]
    assert bad[1] == "failed" and bad[3] == "exit status 3" and params(run, bad) == {"lr": "2", "kind": "a", "seed": "7"}
    assert all(p[7] == [run["names"].index("loss"), f"3.{params(run, p)['lr']}", 0, 3] for p in points.values() if p is not bad)
    assert sorted((c["point"], c["rank"]) for c in run["curves"]) == [(i, 0) for i in range(4)]
    assert run["steps"] == ["point"] and sorted(a[11] for a in run["attempts"]) == [0, 1, 2, 3]
    assert {(r[10], r[0]) for r in run["ranks"]} == {(i, k) for i in range(4) for k in range(2)}
    assert f"loss=1.{params(run, bad)['lr']}0" in rhrun("logs", "last", "--step", bad[8]).ok().out
    said = [line[4] for log in run["logs"] for line in log["lines"]]
    assert said.count("wrong") == 1
    rows = list(csv.DictReader(io.StringIO(rhrun("metrics", "last", "--csv").ok().out)))
    assert {r["point"] for r in rows} == set(points) and len(rows) == 24
    # only the failed point is done again; the others are kept, with their output
    (box.home / "go").touch()
    rhrun(spec).ok()
    (again,) = data(rhrun, spec)
    assert {p[0]: p[1] for p in again["points"]} == dict.fromkeys(points, "done")
    assert sorted(a[3] for a in again["attempts"]) == ["kept"] * 3 + ["ok"]
    assert len(again["curves"]) == 4 and all(len(p[7]) == 4 for p in again["points"])
    assert {p["point"] for p in map(json.loads, rhrun("metrics", "last", "--json").ok().out.splitlines())} == set(points)


def test_what_was_given_for_an_env_is_not_shown(rhrun, job):
    spec = job("name: e\nenv: {TOKEN: a}\nentrypoint: {run: 'true'}\n")
    rhrun(spec, "--set", "env.TOKEN=hunter2", "--set", "entrypoint.env.OTHER=hunter3").ok()
    text = rhrun("report", "last").ok().out
    assert "hunter" not in text and "env.TOKEN=(hidden)" in text


def test_where_a_run_comes_from(rhrun, box):
    git = lambda *args: subprocess.run(["git", "-C", box.work, "-c", "user.name=a", "-c", "user.email=a@b", *args], check=True, capture_output=True, text=True,
                                       env=box.env).stdout.strip()
    git("init", "-q", "-b", "trunk")
    git("remote", "add", "origin", "https://me:hunter2@example.org/jobs.git")
    spec = box.spec("name: w\nworkdir: .\ndistributed: {nnodes: 2, nproc_per_node: 2}\nentrypoint: {run: '[ $RANK != 0 ] || cat file'}\n")
    (box.work / "file").write_text("one\n")
    git("add", ".")
    git("commit", "-qm", "one")
    (box.work / "file").write_text("two\n")
    rhrun(spec).ok()
    (run,) = data(rhrun, spec)
    said = dict(run["provenance"])
    assert said["commit"] == git("rev-parse", "HEAD") + " on trunk, with changes that were not committed"
    assert re.search(r"tree [0-9a-f]{40} .*, 1 file", said["files of workdir"])
    assert "hunter2" not in json.dumps(run)
    # workers without output are in the table too
    assert [(r[0], r[3], r[6]) for r in run["ranks"]] == [(0, 0, 1), (1, 0, 0), (2, 1, 0), (3, 1, 0)]


def test_a_file_that_cannot_be_written(rhrun, job, mounted, box):
    spec = job("name: d\nentrypoint: {run: 'true'}\n")
    rhrun(spec).ok()
    assert "no-such" in rhrun("report", spec, "-o", box.work / "no-such" / "r.html").expect(3).err
    small = mounted(box.dir / "small", "size=64k")
    (small / "r.html").write_text("before")
    assert "r.html" in rhrun("report", spec, "-o", small / "r.html").expect(3).err
    assert (small / "r.html").read_text() == "before" and [p.name for p in small.iterdir()] == ["r.html"]


def test_a_run_that_is_under_way(rhrun, job, box):
    spec = job("name: u\nentrypoint: {run: 'echo here; while [ ! -e %s/go ]; do sleep 0.05; done'}\n" % box.dir)
    started = box.start(spec)
    started.wait_text("here")
    (run,) = data(rhrun, spec)
    assert run["open"] and run["status"] == "running"
    assert [(a[3], a[5]) for a in run["attempts"]] == [("running", None)]
    (box.dir / "go").touch()
    started.wait().ok()


def test_the_library_is_the_one_that_is_named():
    folder = ROOT / "third_party/uplot"
    named = re.findall(r"^ +(\S+) +sha256 (\w+)$", (folder / "README.md").read_text(), re.M)
    assert [n for n, _ in named] == ["uPlot.iife.min.js", "uPlot.min.css"]
    for name, digest in named:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


# ---- in a browser ----

@pytest.fixture
def page():
    b = browser.Browser()
    yield b
    b.close()


@pytest.mark.soak
def test_in_a_browser(rhrun, fails, box, page):
    rhrun(fails, "-p", "lr=1e-2").ok()
    ids = [r["run"] for r in rhrun("runs", fails, "--json").ok().json()]
    for name, runs in (("one", ids[-1:]), ("two", ids)):
        to = box.work / f"{name}.html"
        rhrun("report", *runs, "-o", to).ok()
        for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
            page.view(width, 900, dark)
            page.open(to)
            assert page.problems == []
            assert [r for r in page.requests if r != f"file://{to}"] == []
            assert page.ask("document.documentElement.scrollWidth") <= width
            assert "evil" not in page.ask("document.title")
            assert page.ask("document.images.length") == 0
    page.open(box.work / "one.html")
    # the log shows the failure first; the search finds the line, as text
    assert "onerror" in page.ask("document.querySelector('#logs .log').textContent")
    page.ask("(() => { const i = document.querySelector('#logs input'); i.value = 'ONERROR'; i.dispatchEvent(new Event('input')); })()")
    page.ask("new Promise(done => setTimeout(done, 200))")
    assert page.ask("[...document.querySelectorAll('#logs mark')].map(m => m.textContent)") == ["onerror"] * 2
    assert page.ask("document.querySelectorAll('#timeline svg .bar').length") == 6
    assert "exit status 3" in page.ask("document.querySelector('#failures').textContent")
    assert page.ask("document.querySelectorAll('#metrics canvas').length") == 1
    page.open(box.work / "two.html")
    assert page.ask("[...document.querySelectorAll('#compare td.differs')].map(t => t.textContent)")[:2] == ["1e-2", "1e-3"]
    page.ask("document.querySelector('#points thead th:nth-child(3) button').click()")
    assert page.ask("[...document.querySelectorAll('#points tbody td:nth-child(3)')].map(t => t.textContent)") == ["1e-3", "1e-2"]
    # a sweep: a row, a bar and a curve for each point, whose name leads to its log
    swept = box.spec("name: s\nparams: {i: 0}\nsweep: {matrix: {i: [1, 2, 3]}, best: {metric: loss, goal: max}}\nmetrics: [{name: loss, pattern: 'loss=(?<value>\\S+)'}]\n"
                     "entrypoint: {run: 'echo loss=${{ params.i }}; echo loss=-${{ params.i }}'}\n", "s.yaml")
    rhrun(swept).ok()
    rhrun("report", swept, "-o", box.work / "sweep.html").ok()
    page.open(box.work / "sweep.html")
    assert page.problems == []
    assert page.ask("[...document.querySelectorAll('#points tbody td:first-child')].map(t => t.textContent)") == ["i=1", "i=2", "i=3"]
    assert page.ask("[...document.querySelectorAll('#points .best')].map(t => t.closest('tr').cells[0].textContent)") == ["i=1"]
    assert "Best pointi=1loss -1" in page.ask("document.querySelector('#overview').textContent").replace("\u2212", "-")
    assert page.ask("document.querySelectorAll('#timeline svg .bar').length") == 3
    assert page.ask("document.querySelectorAll('#metrics .u-series').length") == 4
    page.ask("document.querySelector('#points tbody tr:nth-child(3) button').click()")
    assert "loss=3" in page.ask("document.querySelector('#logs .log').textContent")
    # a browser that would run what a page says: the policy refuses it
    page.ask("document.body.insertAdjacentHTML('beforeend', '<img src=data:, onerror=\"document.title=1\">')")
    page.ask("new Promise(done => setTimeout(done, 200))")
    assert page.ask("document.title") != "1" and page.problems
