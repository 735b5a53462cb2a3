/* The tables of docs/troubleshooting.md and docs/jobs.md against the code's. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "schema/job.h"
#include "schema/plan.h"
#include "schema/problem.h"

struct row {
    char cell[6][512];
    size_t count;
};

/* Read one line of a table ("| a | b |"); false: not one, or its head. */
static bool read_row(const char *line, struct row *row)
{
    *row = (struct row){.count = 0};
    if (line[0] != '|' || strncmp(line, "|--", 3) == 0) {
        return false;
    }
    for (const char *at = line + 1; *at && row->count < 6; row->count++) {
        const char *end = strchr(at, '|');
        if (!end) {
            return false;
        }
        while (at < end && *at == ' ') {
            at++;
        }
        const char *last = end;
        while (last > at && last[-1] == ' ') {
            last--;
        }
        (void)snprintf(row->cell[row->count], sizeof(row->cell[0]), "%.*s", (int)(last - at), at);
        at = end + 1;
    }
    return row->cell[0][0] == '`';
}

/* Call visit for every row of the document's section whose first cell is code; returns how many. */
static size_t each_row(const char *path, const char *section,
                       void (*visit)(const struct row *row, void *arg), void *arg)
{
    struct err err = {0};
    BUF_AUTO struct buf text;
    buf_init(&text, 1 << 20);
    assert_ok(file_read(test_data_path(path).text, &text, &err), &err);
    size_t count = 0;
    bool inside = false;
    char *rest = NULL;
    for (char *line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct row row;
        if (strncmp(line, "## ", 3) == 0) {
            inside = strcmp(line + 3, section) == 0;
        }
        if (inside && read_row(line, &row)) {
            visit(&row, arg);
            count++;
        }
    }
    return count;
}

static void compare_problem(const struct row *row, void *arg)
{
    int *next = arg;
    assert_true(*next < PROBLEM_COUNT);
    const struct problem_kind *kind = &problem_kinds[(*next)++];
    char code[64], status[16];
    (void)snprintf(code, sizeof(code), "`%s`", kind->code);
    (void)snprintf(status, sizeof(status), "%d", kind->status);
    assert_string_equal(row->cell[0], code);
    assert_string_equal(row->cell[1], status);
    assert_string_equal(row->cell[2], kind->title);
    assert_string_equal(row->cell[3], kind->retryable ? "yes" : "no");
    assert_string_not_equal(row->cell[4], "");
    assert_string_not_equal(row->cell[5], "");
}

static void troubleshooting_has_the_table_of_problems_with_cause_and_remedy(void **state)
{
    (void)state;
    int next = PROBLEM_NONE + 1;
    (void)each_row("docs/troubleshooting.md", "Problem codes", compare_problem, &next);
    assert_int_equal(next, PROBLEM_COUNT);
}

/* The value at "optimizer.momentum", or NULL. */
static const json_t *value_at(const json_t *document, const char *path)
{
    char part[64];
    while (document && *path) {
        size_t size = strcspn(path, ".");
        (void)snprintf(part, sizeof(part), "%.*s", (int)size, path);
        document = json_object_get(document, part);
        path += size + (path[size] == '.');
    }
    return document;
}

static void compare_default(const struct row *row, void *arg)
{
    char path[128], stated[128];
    (void)snprintf(path, sizeof(path), "%.*s", (int)strlen(row->cell[0]) - 2, row->cell[0] + 1);
    const json_t *value = value_at(arg, path);
    if (strcmp(row->cell[1], "required") == 0 || strcmp(row->cell[1], "none") == 0) {
        return;
    }
    if ((!value || json_is_object(value)) && strcmp(row->cell[1], "`null`") == 0) {
        return; /* an optional record, of which the members may have defaults */
    }
    assert_int_equal(row->cell[1][0], '`');
    (void)snprintf(stated, sizeof(stated), "%.*s", (int)strlen(row->cell[1]) - 2, row->cell[1] + 1);
    json_auto_t *expected = json_loads(stated, JSON_DECODE_ANY, NULL);
    if (!value || !json_equal(expected, value)) {
        fail_msg("%s: the document says %s", path, stated);
    }
    assert_string_not_equal(row->cell[2], "");
}

/* Members that are objects themselves count by their own members; labels are one. */
static size_t count_leaves(const json_t *value)
{
    if (!json_is_object(value) || json_object_size(value) == 0) {
        return 1;
    }
    size_t count = 0;
    const char *name;
    json_t *member;
    json_t *object = (json_t *)(uintptr_t)value;
    json_object_foreach(object, name, member)
    {
        count += count_leaves(member);
    }
    return count;
}

static void the_document_of_jobs_states_every_field_and_its_default(void **state)
{
    (void)state;
    struct job_spec spec = job_spec_default;
    spec.has_view = spec.has_submodel = spec.has_stop = spec.has_checkpoint = true;
    spec.has_parameter_server = spec.has_gossip = true;
    json_auto_t *defaults = record_write(&job_spec_record, &spec);
    assert_non_null(defaults);
    size_t rows = each_row("docs/jobs.md", "Fields", compare_default, defaults);
    /* model.sha256, model.description and view.shard with its six members are not written while
     * there is none; the same holds for the six members of dataset.train and the three of
     * dataset.test; view, submodel, parameter_server, gossip, stop and checkpoint have rows besides
     * those of their members. */
    assert_int_equal(rows, count_leaves(defaults) + 24);
}

/* The names in the first cells of a section. */
struct named {
    char text[4096];
    size_t fields;
};

static void note_names(const struct row *row, void *arg)
{
    struct named *named = arg;
    size_t used = strlen(named->text);
    (void)snprintf(named->text + used, sizeof(named->text) - used, "%s, ", row->cell[0]);
    named->fields += !strchr(row->cell[0], '.'); /* members of records are rows as well */
    assert_string_not_equal(row->cell[1], "");
}

static void expect_fields(const char *section, const struct record *record)
{
    struct named named = {0};
    (void)each_row("docs/jobs.md", section, note_names, &named);
    for (size_t i = 0; i < record->field_count; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "`%s`, ", record->fields[i].name);
        assert_holds(named.text, name);
    }
    assert_int_equal(named.fields, record->field_count);
}

static void the_document_of_jobs_states_every_field_of_a_job_and_a_plan(void **state)
{
    (void)state;
    expect_fields("What a job shows", &job_record);
    expect_fields("What a plan shows", &plan_record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(troubleshooting_has_the_table_of_problems_with_cause_and_remedy),
        cmocka_unit_test(the_document_of_jobs_states_every_field_and_its_default),
        cmocka_unit_test(the_document_of_jobs_states_every_field_of_a_job_and_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
