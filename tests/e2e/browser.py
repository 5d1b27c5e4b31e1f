"""A real browser without a window: Chromium. The tests speak to it over two pipes (the DevTools protocol), so it needs no port and
no other package. RHRUN_TEST_BROWSER names its program if it is not on PATH."""
import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

import harness

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
TIMEOUT = 60


def program():
    """The browser's program; without one skips the test, or fails it if everything is required."""
    found = os.environ.get("RHRUN_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        harness.missing("a browser", "apt-get install chromium-headless-shell")
    return found


class Browser:
    """One page at a time: open() shows a file, ask() evaluates an expression there, shot() is a picture of it. problems: all
    that the page complained of (errors, what its content security policy refused); requests: the addresses it asked for."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="rhrun-browser-")
        in_read, self.write_fd = os.pipe()
        self.read_fd, out_write = os.pipe()

        def plumb():
            os.dup2(os.dup(in_read), 3)
            os.dup2(os.dup(out_write), 4)
            # dup2 clears close-on-exec: 3 and 4 are where the browser looks for them

        flags = ["--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--no-first-run", "--disable-background-networking", "--disable-component-update", "--force-color-profile=srgb",
                 f"--user-data-dir={self.folder}", "about:blank"]
        env = {**os.environ, "HOME": self.folder}
        self.process = subprocess.Popen([program(), *flags], pass_fds=(3, 4), preexec_fn=plumb, env=env, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(in_read)
        os.close(out_write)
        self.buffer, self.serial, self.session = b"", 0, None
        self.problems, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    # -- the protocol: JSON, ended by a NUL --

    def _next(self, end):
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.read_fd, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self._note(message)
        return message

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, timeout=TIMEOUT, **params):
        self.serial += 1
        message = {"id": self.serial, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while True:
            answer = self._next(end)
            if answer.get("id") == self.serial:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    # -- calls for tests --

    def view(self, width=1280, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path):
        """Seconds until the page was drawn completely."""
        self.problems, self.requests = [], []
        began = time.monotonic()
        self.call("Page.navigate", url=f"file://{path}")
        while not self.ask("document.readyState === 'complete' && document.documentElement.hasAttribute('data-ready')"):
            if time.monotonic() - began > TIMEOUT:
                raise TimeoutError(f"{path} is not ready; {self.problems}")
            time.sleep(0.01)
        # after two frames the drawing is on the screen
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        return time.monotonic() - began

    def ask(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "it failed"))
        return answer["result"].get("value")

    def shot(self, path, whole=True):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        view = self.call("Page.getLayoutMetrics")["cssVisualViewport"]
        clip = {"x": 0, "y": 0, "width": view["clientWidth"], "height": min(size["height"], 16000), "scale": 1}
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **({"clip": clip} if whole else {}))
        with open(path, "wb") as f:
            f.write(base64.b64decode(picture["data"]))

    def close(self):
        os.close(self.write_fd)
        os.close(self.read_fd)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
