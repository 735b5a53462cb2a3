/* slim_parts.h: computes a group's channels of each tensor of a divided model. Shared by slim.c,
 * which makes the models of groups, and state/harvest.c, which copies their tensors back. Private
 * to these files and their tests. Pure; any thread. */
#ifndef LIBTRAIN_MODEL_SLIM_PARTS_H
#define LIBTRAIN_MODEL_SLIM_PARTS_H

#include <stdbool.h>

#include "libtrain/model/slim.h"

#define SLIM_PARTS_MAX 32 /* of one tensor: concatenations of concatenations */

/* Successive channels of a tensor that are divided together. */
struct slim_part {
    uint32_t channels; /* divided among the groups by their widths */
    uint32_t each;     /* channels of the tensor for each of them: filters of a depthwise conv2d */
};

/* The channels of a tensor of the target. */
struct slim_channels {
    bool whole;     /* every group has all of them */
    uint32_t count; /* in the target */
    uint32_t area;  /* positions that a flatten made elements of each channel, or 1. The elements of
                       a channel are contiguous in PyTorch's order, C x H x W */
    size_t part_count;
    struct slim_part part[SLIM_PARTS_MAX]; /* unless whole */
};

/* A unit of the target after the stem. */
struct slim_unit {
    struct slim_channels tensor[MODEL_UNIT_OPS_MAX + 1];  /* as struct op numbers them */
    bool select[MODEL_UNIT_OPS_MAX][MODEL_OP_INPUTS_MAX]; /* this input of this op is whole and read
                                                             through a select */
};

/* The boundary between two units while a model is divided. */
struct slim_walk {
    struct slim_channels boundary;
    uint32_t least; /* channels of the narrowest part so far */
    size_t narrow;  /* the group with too few channels; group_count: none */
};

struct slim_range {
    uint32_t first, count;
};

/* Check the numbers of a division, without its units. Errors as slim_check. */
NODISCARD int slim_check_split(const struct slim_split *split, struct err *err);
/* Set the walk to the end of the stem. */
void slim_begin(const struct slim_split *split, struct slim_walk *walk);
/* Divide the next unit: walk->boundary is its input, then its output. A split without groups has
 * any channels. ERR_INVALID as slim_check. */
NODISCARD int slim_divide_unit(const struct slim_split *split, size_t unit, struct slim_walk *walk,
                               struct slim_unit *out, struct err *err);

/* Return the channels that op k reads from its i-th input, after a select. */
struct slim_channels slim_input(const struct slim_unit *unit, const struct op *op, size_t k,
                                size_t i);
/* Write a group's channels as ranges of the target's channels, in ascending order. Returns the
 * number of ranges. */
size_t slim_ranges(const struct slim_split *split, const struct slim_channels *channels,
                   size_t group, struct slim_range out[SLIM_PARTS_MAX]);
/* Return the number of a group's channels. */
uint32_t slim_count(const struct slim_split *split, const struct slim_channels *channels,
                    size_t group);
/* Return whether an op is the model's last: the linear whose outputs are the classes. */
bool slim_is_head(const struct slim_split *split, size_t unit, size_t k);

#endif
