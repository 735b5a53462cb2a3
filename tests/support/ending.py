"""End what a program has started when the program itself is ended.

    raise_on_signals()      # SIGTERM and SIGHUP raise SystemExit: `with` and `finally` clean up
    Popen(..., preexec_fn=end_with_parent(signal.SIGTERM))   # also if this program is killed
"""

import ctypes
import signal
import threading

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)  # loaded here: a new process must not load anything


def leave(number, _):
    for other in SIGNALS:  # a repeated signal must not end the cleaning up
        signal.signal(other, lambda *_: None)
    raise SystemExit(128 + number)


def raise_on_signals():
    """Let signals that would end this program at once raise SystemExit."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, leave)


def end_with_parent(number):
    """For Popen: the new process gets the signal when the thread that starts it ends."""

    def set_signal():
        if LIBC.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")

    return set_signal
