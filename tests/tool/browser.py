"""A headless Chromium, driven through chromedriver with plain WebDriver calls: no package beyond
the standard library.

Only what looking at the live page takes: open, screenshot, run a script. Everything started here is
ended here.
"""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

WIDTH, HEIGHT = 1280, 720
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
DRIVER = shutil.which("chromedriver")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Browser:
    def __init__(self, scratch: Path, scale: float = 1):
        """scale: dots a pixel of the page."""
        scratch.mkdir(exist_ok=True)
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        self.log = open(scratch / "chromedriver.log", "wb")
        self.driver = subprocess.Popen([DRIVER, f"--port={port}"], stdout=self.log, stderr=self.log)
        self.session = None
        try:
            self._wait()
            arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                         "--disable-dev-shm-usage", f"--force-device-scale-factor={scale}",
                         f"--window-size={WIDTH},{HEIGHT}",
                         f"--user-data-dir={scratch / 'profile'}"]
            options = {"binary": CHROMIUM, "args": arguments}
            wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
            self.session = self.call("POST", "/session", wanted)["sessionId"]
            self.viewport()
        except BaseException:
            self.close()
            raise

    def viewport(self) -> None:
        """Makes the page's own area, not the window, WIDTH by HEIGHT."""
        inner = self.script("return [window.innerWidth, window.innerHeight]")
        outer = {"width": 2 * WIDTH - inner[0], "height": 2 * HEIGHT - inner[1]}
        if inner != [WIDTH, HEIGHT]:
            self.call("POST", f"/session/{self.session}/window/rect", outer)

    def call(self, method: str, path: str, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.base + path, data,
                                         {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            said = error.read().decode("utf-8", "replace")[:500]
            raise RuntimeError(f"{method} {path}: {said}") from None

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                if self.call("GET", "/status")["ready"]:
                    return
            except (OSError, RuntimeError):
                pass
            if time.monotonic() > deadline or self.driver.poll() is not None:
                raise RuntimeError("chromedriver did not start")
            time.sleep(0.1)

    def open(self, address: str) -> None:
        self.call("POST", f"/session/{self.session}/url", {"url": address})

    def title(self) -> str:
        return self.call("GET", f"/session/{self.session}/title")

    def script(self, text: str):
        return self.call("POST", f"/session/{self.session}/execute/sync",
                         {"script": text, "args": []})

    def screenshot(self) -> bytes:
        """A PNG of the page."""
        return base64.b64decode(self.call("GET", f"/session/{self.session}/screenshot"))

    def close(self) -> None:
        if self.session:
            try:
                self.call("DELETE", f"/session/{self.session}")
            except (OSError, RuntimeError):
                pass
        self.driver.terminate()
        try:
            self.driver.wait(10)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            self.driver.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
