/* doctor.h: the command doctor. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli/session.h"

/* Ask the coordinator about itself, its devices, jobs and incidents, and show what is wrong. */
NODISCARD int doctor_run(struct session *session, struct err *err);

#endif
