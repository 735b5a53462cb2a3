/* documents.h: the field tables of docs/ from the record tables. For field-tables. */
#ifndef SCHEMA_TABLES_DOCUMENTS_H
#define SCHEMA_TABLES_DOCUMENTS_H

#include "schema/tables/page.h"

/* Add the table of a job's fields: name, default, meaning, bounds. */
void documents_add_job_fields(struct page *page);

#endif
