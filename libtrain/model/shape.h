/* shape.h: the shape of one sample between two ops: height, width, channels (NHWC without N). A
 * vector of F elements is 1 x 1 x F. Pure. */
#ifndef LIBTRAIN_MODEL_SHAPE_H
#define LIBTRAIN_MODEL_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shape {
    uint32_t h, w, c;
};

/* Height and width of a window, a stride or a padding. */
struct extent {
    uint32_t h, w;
};

/* Number of elements. Shapes in a model are bounded (MODEL_ELEMENTS_MAX), so the product fits. */
static inline size_t shape_elements(struct shape shape)
{
    return (size_t)shape.h * shape.w * shape.c;
}

static inline bool shape_equal(struct shape a, struct shape b)
{
    return a.h == b.h && a.w == b.w && a.c == b.c;
}

#endif
