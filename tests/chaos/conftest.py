"""pytest tests/chaos --rounds N --seed S: each round is a test of its own."""
import os
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
pytest_plugins = ["limit"]


def pytest_addoption(parser):
    parser.addoption("--rounds", type=int, default=40, help="how many rounds of the chaos test")
    parser.addoption("--seed", type=int, default=None, help="of its first round; random otherwise")


def pytest_configure(config):
    # The workers of pytest-xdist inherit it: all of them must collect the same rounds.
    os.environ.setdefault("RHRUN_CHAOS_SEED", str(random.randrange(1 << 30)))
    if config.getoption("--seed") is not None:
        os.environ["RHRUN_CHAOS_SEED"] = str(config.getoption("--seed"))


def pytest_report_header():
    return f"chaos: rounds from seed {os.environ['RHRUN_CHAOS_SEED']}"


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        first = int(os.environ["RHRUN_CHAOS_SEED"])
        metafunc.parametrize("seed", range(first, first + metafunc.config.getoption("--rounds")))
