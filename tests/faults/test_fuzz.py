"""Thousands of wrong calls of public functions: an answer, or an error that a caller can expect; never a crash."""

from collections import Counter

from tests.faults.fuzz import CALLS, draw_call, run_calls
from tests.faults.kills import in_a_child

CALLS_IN_ALL, CALLS_HERE, TOGETHER = 2000, 150, 250


def test_wrong_calls_are_answered_or_refused(tmp_path, campaign, counted):
    total = CALLS_IN_ALL if campaign else CALLS_HERE
    seen, wrong, number = Counter(), [], 0
    while number < total:
        log = tmp_path / f"{number}.tsv"
        code, output = in_a_child(run_calls, number, min(total, number + TOGETHER), str(log))
        lines = [line.split("\t") for line in log.read_text().split("\n") if line]
        for done, name, *outcome in lines:
            said = outcome[0] if outcome and outcome[0] else f"wrong: the process ended ({code})"
            seen[said] += 1
            if said.startswith("wrong"):
                wrong.append(f"{done} {name}: {said} {output if 'process' in said else ''}")
        number = int(lines[-1][0]) + 1
    assert not wrong, "\n".join(wrong) + "\nSee one again: python -m tests.faults.fuzz NUMBER"
    outcomes = {"were refused by TypeError, ValueError or our own errors": seen["refused"]}
    counted("a wrong call", "public functions", outcomes | {"could be answered": seen["answered"]})


def test_every_function_gets_its_share():
    assert {draw_call(number)[0] for number in range(CALLS_IN_ALL)} == set(CALLS)
