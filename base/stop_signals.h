/* stop_signals.h: receives signals through a descriptor: those that ask the program to end, and
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
/* Take the next request to end from the descriptor. Returns its signal number; 0: none. Handles the
 * signals before it: after SIGUSR1 the log shows every event, after SIGUSR2 only those of its
 * level. */
int stop_signals_take(int fd);

#endif
