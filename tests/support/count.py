"""Count the results of one ctest run.

    count.py PRESET RESULTS.xml NOTES.txt

Prints "passed failed skipped" and writes one line to NOTES.txt for each failure and each skip with
its reason. A cmocka program counts as its tests, a runner with a last line "N passed, N failed, N
skipped" as these, any other test as one.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

CMOCKA = re.compile(r"^\[ +(PASSED|FAILED|SKIPPED) +\] (\d+) test\(s\)", re.MULTILINE)
CMOCKA_NAME = re.compile(r"^\[ +(FAILED|SKIPPED) +\] ([A-Za-z_]\w*)$", re.MULTILINE)
RUNNER = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.MULTILINE)
REASON = re.compile(r"^skip: (.*)$", re.MULTILINE)


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1].removeprefix("skip: ") if lines else "no output"


def count(case):
    """Return {"passed", "failed", "skipped"} of one test and the lines worth keeping."""
    name = case.get("name")
    output = case.findtext("system-out") or ""
    status = case.get("status")
    skipped = case.find("skipped")
    if status == "disabled":
        return {"passed": 0, "failed": 0, "skipped": 1}, [f"skipped {name}: disabled"]
    if skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        return {"passed": 0, "failed": 0, "skipped": 1}, [f"skipped {name}: {last_line(output)}"]
    if skipped is not None:
        return {"passed": 0, "failed": 1, "skipped": 0}, [
            f"FAILED  {name}: {skipped.get('message')}"
        ]

    totals = {"passed": 0, "failed": 0, "skipped": 0}
    notes = []
    runner = RUNNER.findall(output)
    if CMOCKA.search(output):
        for kind, number in CMOCKA.findall(output):
            totals[kind.lower()] += int(number)
        reasons = iter(REASON.findall(output))
        for kind, test in dict.fromkeys(CMOCKA_NAME.findall(output)):
            notes.append(
                f"FAILED  {name}: {test}"
                if kind == "FAILED"
                else f"skipped {name}: {test}: {next(reasons, 'no reason given')}"
            )
    elif runner:
        for kind, number in zip(totals, runner[-1]):
            totals[kind] += int(number or 0)
        notes += [f"skipped {name}: {reason}" for reason in REASON.findall(output)]
    elif status == "run":
        totals["passed"] = 1

    # A crash, a sanitizer's finding or a timeout after the tests is a failure of its own.
    if status != "run" and totals["failed"] == 0:
        totals["failed"] = 1
        notes.append(f"FAILED  {name}: after {float(case.get('time')):.1f} s: {last_line(output)}")
    return totals, notes


def main():
    preset, report, notes_path = sys.argv[1:]
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    notes = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        counted, lines = count(case)
        for kind, number in counted.items():
            totals[kind] += number
        notes += lines
    with open(notes_path, "w", encoding="utf-8") as out:
        out.writelines(re.sub(r"^(\w+ +)", rf"\1{preset}/", line) + "\n" for line in notes)
    print(*totals.values())


if __name__ == "__main__":
    main()
