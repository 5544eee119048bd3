"""Fixtures of the fault tests: how much to run, and the table of counts for docs/reliability.md."""

import os
import re
import tempfile
from collections import Counter
from pathlib import Path

import pytest

ROW = "fault"  # property of a test report that holds a row of the table
BEGIN, END = "<!-- counts -->", "<!-- end of counts -->"


@pytest.fixture
def campaign(request):
    """Return whether everything runs (`make faults`) or only a small part."""
    return bool(request.config.getoption("--campaign"))


@pytest.fixture
def some(campaign):
    """Return a function (things, few): all things in the campaign, otherwise `few` evenly spaced ones."""

    def chosen(things, few):
        things = list(things)
        if campaign or len(things) <= few:
            return things
        return [things[round(place * (len(things) - 1) / max(1, few - 1))] for place in range(few)]

    return chosen


@pytest.fixture
def memory(tmp_path):
    """An empty folder in /dev/shm if there is one: many small writes are faster there."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="faults-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def counted(record_property):
    """Return a function (fault, where, outcomes) that adds a row to the table of counts.

    `outcomes` counts each outcome, such as ``{"resumed to the same bytes": 143}``.
    """

    def count(fault, where, outcomes):
        record_property(ROW, [fault, where, dict(Counter(outcomes))])

    return count


def pytest_terminal_summary(terminalreporter, config):
    target = config.getoption("--campaign", None)
    reports = terminalreporter.getreports("passed")
    rows = [value for report in reports for name, value in report.user_properties if name == ROW]
    if not target or not rows:
        return
    page = Path(target)
    text = page.read_text() if page.is_file() else f"{BEGIN}\n{END}\n"
    table = merged(text, rows)
    terminalreporter.write_line(table)
    page.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{table}\n{END}", text, flags=re.DOTALL))


def merged(page, rows):
    """Return the page's table of counts with these rows; rows of tests that did not run stay."""
    lines = {}
    for line in re.search(f"{BEGIN}(.*){END}", page, re.DOTALL)[1].splitlines()[3:]:
        fault, where = line.split(" | ")[:2]
        lines[fault.removeprefix("| "), where] = line
    for fault, where, outcomes in rows:
        followed = "; ".join(f"{times:,} {what}" for what, times in outcomes.items() if times)
        lines[fault, where] = f"| {fault} | {where} | {sum(outcomes.values()):,} | {followed} |"
    head = ["| what was done | to | times | what followed |", "| --- | --- | ---: | --- |"]
    return "\n".join(head + [lines[key] for key in sorted(lines)])
