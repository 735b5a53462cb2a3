/* slim_texts.h: pieces of descriptions of small models that are divided, as C texts. Tests only. */
#ifndef TESTS_UNIT_LIBTRAIN_MODEL_SLIM_TEXTS_H
#define TESTS_UNIT_LIBTRAIN_MODEL_SLIM_TEXTS_H

/* A model of 4 x 4 x 3 bytes with units after a stem of 16 channels. */
#define STEM "{\"name\":\"stem\",\"ops\":[{\"type\":\"conv2d\",\"filters\":16,\"kernel\":1}]},"
#define CONV "{\"type\":\"conv2d\",\"filters\":16,\"kernel\":1}"
#define HEAD                                                                                       \
    ",{\"name\":\"head\",\"ops\":[{\"type\":\"global_avg_pool\"},{\"type\":\"linear\",\"units\":"  \
    "8}]}"
#define SLICED(units)                                                                              \
    "{\"name\":\"m\",\"input\":{\"shape\":[4,4,3],\"dtype\":\"uint8\"},\"units\":[" STEM units     \
        HEAD "]}"
#define OPS(ops) "{\"name\":\"a\",\"ops\":[" ops "]}"

#endif
