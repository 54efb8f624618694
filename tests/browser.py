"""A headless Chromium, driven over a pipe by its own debugging protocol: no driver, no package.

`find_or_install` takes a browser that is there, or Debian's where this process may install it.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


def find_or_install():
    """Return the path of a browser and why there is none: one of the two is None."""
    if given := os.environ.get("TAILPROOF_BROWSER"):
        return (given, None) if shutil.which(given) else (None, f"{given} is not there")
    for name in NAMES:
        if path := shutil.which(name):
            return path, None
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return None, "no Chromium was found, and this user may not install Debian's"
    # Test workers come here together; one installs, the others wait and then find it.
    with open(Path(tempfile.gettempdir()) / "tailproof-browser.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _install()


def _install():
    if path := shutil.which("chromium"):
        return path, None
    # Test workers come here together; one installs, the others wait and then find it.
    with open(Path(tempfile.gettempdir()) / "tailproof-browser.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _install()


def _install():
    if path := shutil.which("chromium"):
        return path, None
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ("update", "install -y --no-install-recommends chromium fonts-dejavu-core"):
        done = subprocess.run(
            ["apt-get", "-qq", *command.split()], env=environment, capture_output=True, timeout=900
        )
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip().splitlines()
            return None, f"apt-get {command.split()[0]} failed: {reason[-1] if reason else ''}"
    path = shutil.which("chromium")
    return (path, None) if path else (None, "Debian's chromium package brought no chromium")


class Browser:
    """One browser process. Use as a context manager."""

    def __init__(self, path):
        self.path = path
        self.count = 0
        self.events = []
        self.waiting = b""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tailproof-browser-")
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()

        def pipes():  # the protocol wants them as 3 and 4, whatever numbers they have here
            first, second = os.dup(to_read), os.dup(to_write)
            os.dup2(first, 3)
            os.dup2(second, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        self.process = subprocess.Popen(
            [self.path, *FLAGS, f"--user-data-dir={self.folder.name}", "about:blank"],
            preexec_fn=pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.folder.cleanup()

    def call(self, method, session=None, **parameters):
        """Send a command and return its result, keeping the events that come before it."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method, session):
        """Return the next event of this name."""
        for i, event in enumerate(self.events):
            if event.get("method") == method and event.get("sessionId") == session:
                return self.events.pop(i)
        while True:
            event = self._next()
            if event.get("method") == method and event.get("sessionId") == session:
                return event
            self.events.append(event)

    def _next(self):
        while b"\0" not in self.waiting:
            read = os.read(self.from_browser, 1 << 20)
            if not read:
                raise OSError("the browser went away")
            self.waiting += read
        message, self.waiting = self.waiting.split(b"\0", 1)
        return json.loads(message)

    def open(self, path, *, scheme="light", width=1200, height=900, scripts=True):
        """Return a page that shows a file."""
        return Page(self, Path(path), scheme, width, height, scripts)


class Page:
    """One tab: what it shows, what it said on the console, pictures of it."""

    def __init__(self, browser, path, scheme, width, height, scripts):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.media(scheme=scheme)
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.call("Page.navigate", url=path.resolve().as_uri())
        browser.wait_for("Page.loadEventFired", self.session)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def media(self, *, scheme="light", medium=""):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=medium, features=features)

    def evaluate(self, expression):
        """Return the value of a JavaScript expression."""
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", "failed"))
        return result["result"].get("value")

    def complaints(self):
        """Return every error, warning and uncaught exception so far, and every request made."""
        self.evaluate("1")  # let what is under way arrive
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, data = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(data["exceptionDetails"]["text"])
            elif method == "Log.entryAdded" and data["entry"]["level"] in ("error", "warning"):
                found.append(data["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and data["type"] in ("error", "warning"):
                found.append(str(data["args"]))
            elif method == "Network.requestWillBeSent":
                url = data["request"]["url"]
                if not url.startswith(("file:", "data:")):
                    found.append(f"request for {url}")
        return found

    def screenshot(self, path, *, whole=True):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def pdf(self, path):
        data = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"]
        Path(path).write_bytes(base64.b64decode(data))
