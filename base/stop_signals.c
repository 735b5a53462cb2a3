#include "base/stop_signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"

int stop_signals_open(int *out, struct err *err)
{
    struct sigaction hangup;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGUSR1);
    (void)sigaddset(&set, SIGUSR2);
    /* Linux queues a blocked signal even when its action is to ignore it: a signalfd would deliver
     * it. */
    if (sigaction(SIGHUP, NULL, &hangup) != 0 || hangup.sa_handler != SIG_IGN) {
        (void)sigaddset(&set, SIGHUP);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
        return err_set(err, err_from_errno(errno), "block signals: %s", strerror(errno));
    }
    *out = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return *out >= 0 ? 0 : err_set(err, err_from_errno(errno), "signalfd: %s", strerror(errno));
}

int stop_signals_take(int fd)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        const int number = (int)info.ssi_signo;
        if (number != SIGUSR1 && number != SIGUSR2) {
            return number;
        }
        log_set_debug(number == SIGUSR1);
    }
    return 0;
}
