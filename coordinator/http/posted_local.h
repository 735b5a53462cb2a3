/* posted_local.h: the training data of a job that stay on devices, as the devices offer them now.
 * The loop's thread only. */
#ifndef COORDINATOR_HTTP_POSTED_LOCAL_H
#define COORDINATOR_HTTP_POSTED_LOCAL_H

#include "coordinator/http/posted.h"

/* Fill posted->local, which describes all of them as one data set, and the form in the spec. Of
 * several forms of one name that which most devices offer. NULL, and a fault: nobody offers it, or
 * the test set has other classes. */
const struct dataset *posted_local(const struct coordinator *coordinator, struct posted_job *posted,
                                   const struct dataset *test, struct record_faults *faults);

#endif
