"""http: requests to a real Docker Engine over its unix socket, whose stream arrives line by line."""
import json
import os
import select
import subprocess
import time

import pytest

import harness

pytestmark = pytest.mark.xdist_group("docker")

ASK = harness.RHRUN.parent / "tests/unit/http_ask"


def ask(engine, method, path):
    done = subprocess.run([ASK, method, f"http://docker{path}", engine.socket], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines_of(process, wanted, seconds=60):
    """Lines as they come, up to one with that word."""
    text, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([process.stdout], [], [], 1)[0]:
            piece = os.read(process.stdout.fileno(), 65536)
            assert piece, "the stream ended"
            text += piece
            if wanted in text and text.endswith(b"\n"):
                return [json.loads(line) for line in text.splitlines()]
    pytest.fail(f"{wanted} did not come: {text}")


def test_an_engine_is_asked_over_its_socket(engine):
    assert ask(engine, "GET", "/_ping") == "OK"
    assert ask(engine, "HEAD", "/_ping") == ""
    assert json.loads(ask(engine, "GET", "/v1.41/containers/json")) == []
    assert ask(engine, "GET", "/v1.41/containers/none/json").startswith('404 {"message":')
    assert ask(engine, "POST", "/v1.41/containers/none/start").startswith('404 {"message":')


def test_what_an_engine_streams_comes_as_it_happens(engine):
    events = subprocess.Popen([ASK, "GET", "http://docker/v1.41/events", engine.socket], stdout=subprocess.PIPE)
    try:
        for i in range(100):  # what happens before the engine listens is not told
            engine.docker("network", "create", f"seen-{i}")
            if select.select([events.stdout], [], [], 0.2)[0]:
                break
        engine.docker("network", "create", "last")
        told = lines_of(events, b'"last"')
        assert [e["Actor"]["Attributes"]["name"] for e in told][-1] == "last" and {e["Action"] for e in told} == {"create"}
        assert events.poll() is None
    finally:
        events.terminate()
        events.wait(20)
        for name in engine.docker("network", "ls", "--format", "{{.Name}}").split():
            if name == "last" or name.startswith("seen-"):
                engine.docker("network", "rm", name)
