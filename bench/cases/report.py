"""The report of a run with 1 million lines of log and 100,000 values of metrics: how long it takes, how large it is, how long a
browser needs to show all of it."""
import contextlib
import os
import random
import sys

from lib import ROOT, Skip, log

LINES, WORKERS, VALUES = 1_000_000, 8, 100_000


def make_logs(bench):
    """A text for each worker: each tenth line has a value."""
    draw = random.Random(1)
    for worker in range(WORKERS):
        with open(bench.dir / f"text{worker}", "w", encoding="ascii") as f:
            for i in range(1, LINES // WORKERS + 1):
                f.write(f"step {i // 10} loss={3 / (1 + i / 9000) + 0.1 * draw.random():.4f}\n" if i % 10 == 0 else
                        f"2026-11-22 12:{i % 60:02}:00 DEBUG dataloader {i % 8}: fetched batch {i} in {draw.random():.4f} s\n")


def rows(bench):
    make_logs(bench)
    spec = bench.spec("report.yaml", "name: report\nlog_limit: 2GB\ndistributed: {nnodes: 2, nproc_per_node: 4}\n"
                      "metrics: [{name: loss, pattern: 'step (?<step>\\d+) loss=(?<value>\\S+)'}]\n"
                      f"entrypoint: {{run: 'cat {bench.dir}/text$RANK'}}\n")
    page = bench.dir / "report.html"
    bench.seconds([bench.rhrun, "--quiet", spec])
    took = min(bench.seconds([bench.rhrun, "report", spec, "-o", page]) for _ in range(3))
    size = page.stat().st_size / 1e6
    what = f"the report of {LINES:,} lines and {VALUES:,} values"
    yield {"work": f"{what} is made", "against": "", "value": f"{took:.2f} s", "wanted": None}
    yield {"work": f"{what}: its size", "against": "", "value": f"{size:.2f} MB", "wanted": "< 5 MB", "met": size < 5}
    sys.path.append(str(ROOT / "tests/e2e"))
    try:
        import browser
    except ImportError as e:
        raise Skip(f"{e.name} is not installed") from e
    if not os.environ.get("RHRUN_TEST_BROWSER") and not any(map(browser.shutil.which, browser.NAMES)):
        log("    no browser is here: apt-get install chromium-headless-shell")
        return
    with contextlib.closing(browser.Browser()) as b:
        b.view()
        opened = sorted(b.open(page) for _ in range(5))[2]
        if b.problems:
            raise RuntimeError(f"the page says {b.problems}")
    yield {"work": f"{what} is opened by Chromium, all drawn", "against": "", "value": f"{opened:.2f} s", "wanted": "< 2 s", "met": opened < 2}
