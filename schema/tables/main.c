/* field-tables: writes the schemas of schema/openapi.yaml and the field tables of docs/ from the
 * record tables. Each written part is between a line that ends with "begin NAME" and one with "end
 * NAME". */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "schema/device.h"
#include "schema/groups_view.h"
#include "schema/incident.h"
#include "schema/job.h"
#include "schema/job_preview.h"
#include "schema/mix_row.h"
#include "schema/plan.h"
#include "schema/prediction.h"
#include "schema/tables/contract.h"
#include "schema/tables/documents.h"

#define FILE_BYTES_MAX (4u << 20)
#define PATH_BYTES 4096

static const char usage[] = "usage: field-tables [--check] ROOT\n"
                            "Write the parts of schema/openapi.yaml and docs/ that are made from "
                            "the record tables.\n"
                            "--check  only say which parts are stale. Default: off.\n";

struct part {
    const char *path;
    const char *begin, *end; /* the lines around the part */
    void (*add)(struct page *page);
    const struct record *answer; /* without `add`: the record whose fields an answer shows */
};

#define DOCUMENT(document, name, ...)                                                              \
    {                                                                                              \
        .path = "docs/" document, .begin = "<!-- field-tables: begin " name " -->\n",              \
        .end = "<!-- field-tables: end " name " -->\n", __VA_ARGS__                                \
    }

static const struct part parts[] = {
    {"schema/openapi.yaml", "    # field-tables: begin schemas\n", "# field-tables: end schemas\n",
     .add = contract_add_schemas},
    DOCUMENT("jobs.md", "job_spec", .add = documents_add_job_fields),
    DOCUMENT("jobs.md", "job", .answer = &job_record),
    DOCUMENT("jobs.md", "plan", .answer = &plan_record),
    DOCUMENT("api.md", "device", .answer = &device_record),
    DOCUMENT("api.md", "job_preview", .answer = &job_preview_record),
    DOCUMENT("api.md", "groups", .answer = &groups_view_record),
    DOCUMENT("api.md", "mix", .answer = &mix_row_record),
    DOCUMENT("api.md", "incident", .answer = &incident_record),
    DOCUMENT("api.md", "prediction", .answer = &prediction_record),
};

static int write_part(const char *path, const struct page *head, struct err *err)
{
    return file_write_atomic(path, head->text.data, head->text.size, 0644, err);
}

/* Bring the part up to date; with `check` only say whether it is: *stale. */
static int update(const char *root, const struct part *part, bool check, bool *stale,
                  struct err *err)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/%s", root, part->path);
    BUF_AUTO struct buf file;
    buf_init(&file, FILE_BYTES_MAX);
    int rc = file_read(path, &file, err);
    if (rc) {
        return rc;
    }
    const char *begin = strstr(file.data, part->begin);
    const char *end = begin ? strstr(begin, part->end) : NULL;
    if (!end) {
        return err_set(err, ERR_FORMAT, "%s: expects the lines '%.*s' and '%.*s'", path,
                       (int)strlen(part->begin) - 1, part->begin, (int)strlen(part->end) - 1,
                       part->end);
    }
    begin += strlen(part->begin);
    PAGE_AUTO struct page page;
    page_init(&page);
    page_add(&page, "%.*s", (int)(begin - file.data), file.data);
    if (part->add) {
        part->add(&page);
    } else {
        documents_add_answer_fields(&page, part->answer);
    }
    page_add(&page, "%s", end);
    if (page.rc) {
        *err = page.err;
        return page.rc;
    }
    *stale = page.text.size != file.size || memcmp(page.text.data, file.data, file.size) != 0;
    return *stale && !check ? write_part(path, &page, err) : 0;
}

int main(int count, char **argument)
{
    const bool check = count == 3 && strcmp(argument[1], "--check") == 0;
    if (!check && (count != 2 || argument[1][0] == '-')) {
        (void)fputs(usage, stderr);
        return 2;
    }
    const char *root = argument[count - 1];
    int status = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        bool stale = false;
        struct err err = {0};
        if (update(root, &parts[i], check, &stale, &err)) {
            (void)fprintf(stderr, "field-tables: %s\n", err.text);
            return 1;
        }
        if (stale && check) {
            (void)fprintf(stderr,
                          "%s differs from the record tables of schema/*.c; run "
                          "build/dev/bin/field-tables .\n",
                          parts[i].path);
            status = 1;
        }
    }
    return status;
}
