/* documents.h: the field tables of docs/ from the record tables. For field-tables. */
#ifndef SCHEMA_TABLES_DOCUMENTS_H
#define SCHEMA_TABLES_DOCUMENTS_H

#include "base/record.h"
#include "schema/tables/page.h"

/* Add the table of a job's fields: name, default, meaning, bounds. */
void documents_add_job_fields(struct page *page);
/* Add the table of the fields that an answer shows: name, value, meaning. A member with a schema of
 * its own is one row, the members of other records are rows too. */
void documents_add_answer_fields(struct page *page, const struct record *record);

#endif
