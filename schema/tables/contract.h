/* contract.h: the component schemas of openapi.yaml from the record tables. For field-tables. */
#ifndef SCHEMA_TABLES_CONTRACT_H
#define SCHEMA_TABLES_CONTRACT_H

#include "schema/tables/page.h"

/* Add the shared schemas, a schema for each record that crosses the API and for the records inside
 * them. */
void contract_add_schemas(struct page *page);

#endif
