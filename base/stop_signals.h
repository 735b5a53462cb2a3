/* stop_signals.h: the signals that ask a program to end, as a descriptor. For the main functions of
 * the programs, before they start a thread. */
#ifndef BASE_STOP_SIGNALS_H
#define BASE_STOP_SIGNALS_H

#include "base/err.h"

/* Block SIGTERM, SIGINT and SIGHUP for this thread and those it starts; *out is a signalfd (not
 * blocking) of them. SIGHUP, the end of a terminal, counts as a request to end unless the program
 * was started with SIGHUP ignored, as nohup does. SIGPIPE is ignored from now on. The caller closes
 * *out. */
NODISCARD int stop_signals_open(int *out, struct err *err);
/* Take one signal from the descriptor: its number, 0: none has come. */
int stop_signals_take(int fd);

#endif
