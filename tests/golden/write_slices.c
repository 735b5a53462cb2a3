/* write_slices NAME STEM GROUPS equal|unequal SEED DIRECTORY: the files of a divided model of the
 * zoo, or of `branched`, with random tensors, group0.safetensors and so on, and their harvest,
 * harvest.safetensors. Prints the classes and the prior of each group as JSON. For the test that
 * compares them in PyTorch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/unit/libtrain_description/model_support.h"
#include "tests/unit/libtrain_state/slice_support.h"

#define PATH_BYTES 4096

static int write_file(const char *directory, const char *name, const struct buf *bytes,
                      struct err *err)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/%s.safetensors", directory, name);
    return file_write_atomic(path, bytes->data, bytes->size, 0644, err);
}

static void print_groups(const struct slices *slices)
{
    printf("[");
    for (size_t i = 0; i < slices->split.group_count; i++) {
        printf("%s{\"prior\": %.17g, \"classes\": [", i ? ", " : "", slices->from[i].prior);
        for (uint32_t c = 0; c < slices->group[i].classes; c++) {
            printf("%s%" PRIu32, c ? ", " : "", slices->classes[i][c]);
        }
        printf("]}");
    }
    printf("]\n");
}

static struct model *model_of(const char *name)
{
    return strcmp(name, "branched") == 0 ? branched_model() : usual_model(name);
}

static int run(char **argv, struct err *err)
{
    struct slices slices;
    struct buf harvest;
    int rc = slices_divide(&slices, model_of(argv[1]), strtoul(argv[2], NULL, 10),
                           strtoul(argv[3], NULL, 10), strcmp(argv[4], "unequal") == 0, err);
    if (rc) {
        slices_done(&slices);
        return rc;
    }
    slices_fill(&slices, strtoull(argv[5], NULL, 10));
    rc = slices_harvest(&slices, &harvest, err);
    rc = rc ? rc : write_file(argv[6], "harvest", &harvest, err);
    for (size_t i = 0; i < slices.split.group_count && rc == 0; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "group%zu", i);
        rc = write_file(argv[6], name, &slices.file[i].bytes, err);
    }
    print_groups(&slices);
    buf_done(&harvest);
    slices_done(&slices);
    return rc;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc != 7) {
        fprintf(stderr, "usage: write_slices NAME STEM GROUPS equal|unequal SEED DIRECTORY\n");
        return 2;
    }
    if (run(argv, &err) != 0) {
        fprintf(stderr, "write_slices: %s\n", err.text);
        return 1;
    }
    return 0;
}
