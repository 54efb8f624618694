"""A headless Chromium, driven by Playwright.

`find_or_install` takes a browser that is there, or Debian's where this process may install it;
Playwright's own download is never used.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

PACKAGES = ("chromium", "fonts-dejavu-core")
PATIENCE = 600  # seconds to wait for another user of the package manager
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-sync",
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
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        done = _apt(command, environment)
        if done.returncode:
            reason = done.stderr.strip().splitlines()
            return None, f"apt-get {command[0]} failed: {reason[-1] if reason else ''}"
    path = shutil.which("chromium")
    return (path, None) if path else (None, "Debian's chromium package brought no chromium")


def _apt(command, environment):
    """Run apt-get; while another process holds a lock of the package manager, try again."""
    wait = ["-o", f"DPkg::Lock::Timeout={PATIENCE}"]
    until = time.monotonic() + PATIENCE
    while True:
        done = subprocess.run(
            ["apt-get", "-qq", *wait, *command], env=environment, capture_output=True, text=True
        )
        # The lock on the lists of packages, unlike dpkg's, is not waited for.
        busy = done.returncode and "lock" in done.stderr.lower()
        if not busy or time.monotonic() > until:
            return done
        time.sleep(1)


class Browser:
    """One browser process. Use as a context manager."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.playwright = sync_playwright().start()
        self.chromium = self.playwright.chromium.launch(executable_path=self.path, args=FLAGS)
        return self

    def __exit__(self, *_):
        self.chromium.close()
        self.playwright.stop()

    def open(self, path, *, scheme="light", width=1200, height=900, scripts=True):
        """Return a page that shows a file; `page.complaints` lists what went wrong on it."""
        page = self.chromium.new_page(
            color_scheme=scheme,
            reduced_motion="reduce",
            viewport={"width": width, "height": height},
            java_script_enabled=scripts,
        )
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("console", lambda said: _note(page, said))
        page.on("request", lambda request: _note_request(page, request.url))
        page.goto(Path(path).resolve().as_uri())
        return page


def _note(page, said):
    if said.type in ("error", "warning"):
        page.complaints.append(said.text)


def _note_request(page, url):
    if not url.startswith(("file:", "data:")):
        page.complaints.append(f"request for {url}")
