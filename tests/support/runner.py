"""Runs the test functions of a script and counts them.

    if __name__ == "__main__":
        run(globals())

Every function whose name starts with test_ is a test; Skip(reason) skips it. Words on the command
line choose tests by a part of their name. Ends with "N passed, N failed, N skipped" and exit status
1 when one failed.
"""

import sys
import time
import traceback


class Skip(Exception):
    """The test cannot run here; the text says why."""


def run(names):
    passed = failed = skipped = 0
    wanted = sys.argv[1:]
    for name, function in list(names.items()):
        if not name.startswith("test_") or (wanted and not any(word in name for word in wanted)):
            continue
        start = time.monotonic()
        try:
            function()
        except Skip as reason:
            skipped += 1
            print(f"skip: {name}: {reason}", flush=True)
            continue
        except Exception:  # pylint: disable=broad-except
            failed += 1
            traceback.print_exc(file=sys.stdout)
            print(f"FAILED {name}", flush=True)
            continue
        passed += 1
        print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)
