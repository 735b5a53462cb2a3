/* brief.h: jobs and devices in the few members that a list for people or a dashboard shows
 * (?view=short). They describe struct job and struct device. */
#ifndef SCHEMA_BRIEF_H
#define SCHEMA_BRIEF_H

#include "base/record.h"

extern const struct record job_brief_record, device_brief_record;

#endif
