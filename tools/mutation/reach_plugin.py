"""A pytest plugin: after each test, which mutants' places it reached goes to a file, as JSON.

Places that collection reached, such as those of importing the package, count for each test.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from mutation.schemata import own_page


class Reach:
    """The places that one run of pytest reaches."""

    def __init__(self, page_file: Path, log: Path) -> None:
        page = own_page(page_file)
        assert page is not None, "the program that runs the tests sets RLIMIT_RSS"
        self.page = page
        self.log = log
        self.early: list[int] = []
        self.is_good = True

    def pytest_collection_finish(self) -> None:
        self.early = self.page.reached()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.page.clear()
        self.is_good = True
        began = time.monotonic()
        yield
        reached = sorted({*self.early, *self.page.reached()})
        seconds = round(time.monotonic() - began, 3)
        test = {"name": item.nodeid, "good": self.is_good, "seconds": seconds, "reached": reached}
        with self.log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(test) + "\n")

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.is_good = self.is_good and report.outcome == "passed"


def pytest_configure(config: pytest.Config) -> None:
    pages, log = os.environ["MUTATE_PAGES"], os.environ["MUTATE_REACH"]
    config.pluginmanager.register(Reach(Path(pages), Path(log)))
