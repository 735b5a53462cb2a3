/* shared.h: the component schemas of openapi.yaml that several records or routes share, from the
 * tables of schema/ and libtrain/model. For field-tables. */
#ifndef SCHEMA_TABLES_SHARED_H
#define SCHEMA_TABLES_SHARED_H

#include "schema/tables/page.h"

#define SCHEMA_INDENT 4

/* Add the schemas of texts with a form, of counts, of lists of records, of kernels and of problem
 * codes. */
void shared_add_schemas(struct page *page);

#endif
