/* stop_signals.h: the signals that a program takes, as a descriptor: those that ask it to end, and
 * those that change how much it logs. For the main functions of the programs, before they start a
 * thread. */
#ifndef BASE_STOP_SIGNALS_H
#define BASE_STOP_SIGNALS_H

#include "base/err.h"

/* Block SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 for this thread and those it starts; *out is a
 * signalfd (not blocking) of them. SIGHUP, the end of a terminal, counts as a request to end unless
 * the program was started with SIGHUP ignored, as nohup does. SIGPIPE is ignored from now on. The
 * caller closes *out. */
NODISCARD int stop_signals_open(int *out, struct err *err);
/* Take the next request to end from the descriptor: its number, 0: none has come. Of the signals
 * before it, SIGUSR1 makes the log show every event and SIGUSR2 returns to its level. */
int stop_signals_take(int fd);

#endif
