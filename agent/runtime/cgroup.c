#include "agent/runtime/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/parse.h"

#define TEXT_MAX (1u << 20)
#define PATH_SIZE 4096

/* The two versions of control groups: one tree for all controllers, or a separate one for
 * memory. */
struct version {
    const char *controllers; /* as listed in /proc/self/cgroup */
    const char *mount;       /* below the root */
    const char *limit, *used;
    const char *droppable; /* the row of memory.stat, with those of groups below */
};

static const struct version versions[] = {
    {"", "", "memory.max", "memory.current", "inactive_file"},
    {"memory", "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

static bool read_text(const char *directory, const char *name, struct buf *out)
{
    char path[PATH_SIZE];
    const int length = snprintf(path, sizeof(path), "%s/%s", directory, name);
    return length > 0 && (size_t)length < sizeof(path) && file_read(path, out, NULL) == 0 &&
           out->data;
}

/* A file with one number; false: it does not exist or contains "max". */
static bool read_number(const char *directory, const char *name, int64_t *out)
{
    BUF_AUTO struct buf text;
    buf_init(&text, TEXT_MAX);
    if (!read_text(directory, name, &text)) {
        return false;
    }
    text.data[strcspn(text.data, "\n")] = '\0';
    return parse_i64(text.data, 0, INT64_MAX, out, NULL) == 0;
}

/* The number in the line "NAME NUMBER" of memory.stat; 0 when there is none. */
static int64_t read_stat(const char *directory, const char *name)
{
    BUF_AUTO struct buf text;
    buf_init(&text, TEXT_MAX);
    const size_t size = strlen(name);
    char *line = read_text(directory, "memory.stat", &text) ? text.data : NULL;
    while (line && (strncmp(line, name, size) != 0 || line[size] != ' ')) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    if (!line) {
        return 0;
    }
    int64_t value = 0;
    line[strcspn(line, "\n")] = '\0';
    return parse_i64(line + size + 1, 0, INT64_MAX, &value, NULL) == 0 ? value : 0;
}

static uint64_t group_left(const struct version *version, const char *directory)
{
    int64_t limit = 0, used = 0;
    if (!read_number(directory, version->limit, &limit) ||
        !read_number(directory, version->used, &used)) {
        return UINT64_MAX;
    }
    const int64_t droppable = read_stat(directory, version->droppable);
    used -= droppable < used ? droppable : used;
    return limit > used ? (uint64_t)(limit - used) : 1;
}

/* Return the smallest free memory of the group at `path` and its ancestors. */
static uint64_t tree_left(const struct version *version, const char *root, const char *path)
{
    char directory[PATH_SIZE];
    const int mount = snprintf(directory, sizeof(directory), "%s%s", root, version->mount);
    const size_t length = mount > 0 ? (size_t)mount : sizeof(directory);
    if (length + strlen(path) >= sizeof(directory)) {
        return UINT64_MAX;
    }
    memcpy(directory + length, path, strlen(path) + 1);
    uint64_t least = UINT64_MAX;
    for (;;) {
        const uint64_t left = group_left(version, directory);
        least = left < least ? left : least;
        char *last = strrchr(directory + length, '/');
        if (!last) {
            return least;
        }
        *last = '\0';
    }
}

/* Split a line ID:CONTROLLERS:/PATH; false: the line has another form. */
static bool split(const char *line, char controllers[PATH_SIZE], char path[PATH_SIZE])
{
    const size_t length = strcspn(line, "\n");
    const char *first = memchr(line, ':', length);
    const char *second = first ? memchr(first + 1, ':', length - (size_t)(first + 1 - line)) : NULL;
    if (!second || length >= PATH_SIZE) {
        return false;
    }
    (void)snprintf(controllers, PATH_SIZE, "%.*s", (int)(second - first - 1), first + 1);
    (void)snprintf(path, PATH_SIZE, "%.*s", (int)(line + length - second - 1), second + 1);
    return true;
}

uint64_t cgroup_free_memory(const char *groups, const char *root)
{
    uint64_t least = UINT64_MAX;
    for (const char *line = groups; *line; line += strcspn(line, "\n"), line += *line != '\0') {
        char controllers[PATH_SIZE], path[PATH_SIZE];
        if (!split(line, controllers, path)) {
            continue;
        }
        for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
            if (strcmp(controllers, versions[i].controllers) == 0) {
                const uint64_t left = tree_left(&versions[i], root, path);
                least = left < least ? left : least;
            }
        }
    }
    return least;
}
