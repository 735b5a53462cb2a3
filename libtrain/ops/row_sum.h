/* row_sum.h: sums in one fixed order that vectors can follow: term i is added to lane i % LANES,
 * then the lanes from the first on. Used by libtrain/ops. */
#ifndef LIBTRAIN_OPS_ROW_SUM_H
#define LIBTRAIN_OPS_ROW_SUM_H

#include <stddef.h>

#define ROW_SUM_LANES 8

/* Set the double `result` to the sum of `term`, an expression in `index`, over [0, count). */
#define ROW_SUM(result, index, count, term)                                                        \
    do {                                                                                           \
        double lane_[ROW_SUM_LANES] = {0};                                                         \
        size_t whole_ = (count) / ROW_SUM_LANES * ROW_SUM_LANES;                                   \
        for (size_t first_ = 0; first_ < whole_; first_ += ROW_SUM_LANES) {                        \
            for (size_t at_ = 0; at_ < ROW_SUM_LANES; at_++) {                                     \
                size_t index = first_ + at_;                                                       \
                lane_[at_] += (term);                                                              \
            }                                                                                      \
        }                                                                                          \
        for (size_t index = whole_; index < (count); index++) {                                    \
            lane_[index - whole_] += (term);                                                       \
        }                                                                                          \
        (result) = 0.0;                                                                            \
        for (size_t at_ = 0; at_ < ROW_SUM_LANES; at_++) {                                         \
            (result) += lane_[at_];                                                                \
        }                                                                                          \
    } while (0)

#endif
