"""Chromium without a window, driven through a pipe (--remote-debugging-pipe): no web socket.

Commands go to the browser's descriptor 3 and answers come from 4, as JSON with a NUL after each.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMEOUT_S = 60
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")


def find_browser() -> str | None:
    """$PROTON_CHROMIUM, or what is on PATH."""
    wanted = os.environ.get("PROTON_CHROMIUM")
    return wanted or next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. `errors` contains exceptions and console output of its scripts."""

    def __init__(self, program: str, directory: Path, size: tuple[int, int] = (1400, 1000)) -> None:
        there, self.write_to = os.pipe()
        self.read_from, back = os.pipe()
        # The browser wants 3 and 4, which may be taken here: a shell moves them.
        move = f'exec "$@" 3<&{there} 4>&{back}'
        command = [
            "bash", "-c", move, "browser", program, "--headless", "--no-sandbox", "--disable-gpu",
            "--remote-debugging-pipe", "--no-first-run", "--disable-extensions",
            "--disable-background-networking", "--force-prefers-reduced-motion",
            f"--user-data-dir={directory}", f"--window-size={size[0]},{size[1]}", "about:blank",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command,
            pass_fds=(there, back),
            env={**os.environ, "TMPDIR": str(directory)},  # it leaves files there
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(back)
        self.buffer = b""
        self.number = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        self.process.terminate()
        os.close(self.write_to)
        self.process.wait(timeout=TIMEOUT_S)
        os.close(self.read_from)

    def receive(self) -> dict[str, Any]:
        end = time.monotonic() + TIMEOUT_S
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_from], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self.read_from, 1 << 20)
            assert part, "the browser has ended"
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.errors.append(str(parameters["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return message

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def open(self, path: Path, address: str = "") -> None:
        self.events.clear()
        self.requests.clear()
        # The number makes it another page: a different address after "#" would not load it again.
        url = f"{path.resolve().as_uri()}?{self.number}{address}"
        self.send("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())
        # A report unpacks its tree after that; one with an error never does.
        if self.run("document.getElementById('profile') !== null"):
            self.until("'ready' in document.documentElement.dataset", or_error=True)

    @contextlib.contextmanager
    def before_pages(self, script: str) -> Iterator[None]:
        """Runs a script in each page that is opened, before those of the page."""
        added = self.send("Page.addScriptToEvaluateOnNewDocument", source=script)
        yield
        self.send("Page.removeScriptToEvaluateOnNewDocument", **added)

    def run(self, script: str, awaits: bool = False) -> Any:
        """The value of an expression in the page."""
        result = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=awaits
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def click(self, selector: str) -> None:
        """A click of the mouse in the middle of the first element."""
        self.click_element(f"document.querySelector({json.dumps(selector)})")

    def click_element(self, expression: str) -> None:
        x, y = self.place_of(expression)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, name: str, text: str = "", modifiers: int = 0) -> None:
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38}
        codes |= {"ArrowRight": 39, "ArrowDown": 40}
        text = "\r" if name == "Enter" else text
        code = codes.get(name, 0)
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "", modifiers=modifiers,
            )

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def window(self, width: int, height: int, is_phone: bool = False) -> None:
        """The size of the page. A phone has fingers and no mouse."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=is_phone,
        )
        self.send("Emulation.setTouchEmulationEnabled", enabled=is_phone)

    def place_of(self, expression: str) -> tuple[float, float]:
        """The middle of an element, brought into view."""
        x, y = self.run(
            f"(() => {{ const e = {expression}; e.scrollIntoView({{block: 'nearest'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]"
            "})()"
        )
        return x, y

    def hover(self, expression: str) -> None:
        x, y = self.place_of(expression)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def tap(self, expression: str) -> None:
        x, y = self.place_of(expression)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def go(self, step: int) -> None:
        """Back (-1) or forward (1) in the history of the page."""
        history = self.send("Page.getNavigationHistory")
        entry = history["entries"][history["currentIndex"] + step]
        wanted = json.dumps(entry["url"])
        self.send("Page.navigateToHistoryEntry", entryId=entry["id"])
        self.until(f"location.href === {wanted}")

    def until(self, condition: str, or_error: bool = False) -> None:
        """Waits for an expression to be true, drawing frames of animation."""
        wait = f"({condition}) || new Promise(r => requestAnimationFrame(() => r(false)))"
        end = time.monotonic() + TIMEOUT_S
        while not (or_error and self.errors) and not self.run(wait, awaits=True):
            assert time.monotonic() < end, condition

    def color_scheme(self, name: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))
