/* posted_local.h: finds the training data of a job in the present offers of devices, for data that
 * stay on devices. The loop's thread only. */
#ifndef COORDINATOR_HTTP_POSTED_LOCAL_H
#define COORDINATOR_HTTP_POSTED_LOCAL_H

#include "coordinator/http/posted.h"

/* Fill posted->local, which describes all offers as one data set, and the form in the spec. If
 * offers of one name have several forms, choose the form that most devices offer. NULL, with a
 * fault: no device offers the data, or the test set has other classes. */
const struct dataset *posted_local(const struct coordinator *coordinator, struct posted_job *posted,
                                   const struct dataset *test, struct record_faults *faults);

#endif
