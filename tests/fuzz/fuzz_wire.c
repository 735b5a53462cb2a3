/* Every body that a coordinator or an agent accepts from outside: a body that is read without a
 * fault is written and read again as the same text. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "schema/limits.h"
#include "schema/problem.h"
#include "schema/wire.h"
#include "schema/records.h"

static const char *const inputs[] = {
    "job_spec",        "replan_request", "enroll_request", "enroll_reply",
    "heartbeat_reply", "heartbeat",      "assignment",
};
/* Rows of the store: always written whole, so a row with absent fields need not be readable when
 * written again. */
static const char *const rows[] = {"job"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_record(const struct records_entry *test, const char *text, size_t size, bool row)
{
    struct record_faults faults = {0};
    struct err err = {0};
    void *value = records_new(test);
    void *again = records_new(test);
    ASSERT(value && again);
    int rc = wire_read(test->record, text, size, value, &faults, &err);
    ASSERT(rc == 0 || err.code == rc);
    if (!rc) {
        BUF_AUTO struct buf first, second;
        buf_init(&first, 8u << 20);
        buf_init(&second, 8u << 20);
        ASSERT(wire_write(test->record, value, &first, &err) == 0);
        if (!row) {
            ASSERT(wire_read(test->record, first.data, first.size, again, &faults, &err) == 0);
            ASSERT(wire_write(test->record, again, &second, &err) == 0);
            ASSERT(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
        }
        rc = test->check ? test->check(value, &faults, &err) : 0;
        ASSERT(rc == 0 || rc == ERR_INVALID);
        record_done(test->record, value);
        record_done(test->record, again);
    }
    free(value);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        try_record(records_find(inputs[i]), text, size, false);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        try_record(records_find(rows[i]), text, size, true);
    }
    char message[MESSAGE_SIZE];
    (void)problem_read(text, size, message);
    json_auto_t *document = NULL;
    int version;
    if (json_parse(text, size, &document, NULL) == 0) {
        int rc = wire_protocol(document, &version, NULL);
        ASSERT(rc == 0 || rc == ERR_PROTOCOL);
    }
    return 0;
}
