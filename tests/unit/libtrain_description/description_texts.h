/* description_texts.h: pieces of model descriptions as C texts. Tests only. */
#ifndef TESTS_UNIT_LIBTRAIN_DESCRIPTION_DESCRIPTION_TEXTS_H
#define TESTS_UNIT_LIBTRAIN_DESCRIPTION_DESCRIPTION_TEXTS_H

#define INPUT "\"input\":{\"shape\":[28,28,1],\"dtype\":\"uint8\"},"
#define HEAD                                                                                       \
    "{\"name\":\"head\",\"ops\":[{\"type\":\"global_avg_pool\"},{\"type\":\"linear\",\"units\":"   \
    "10}]}"
#define MODEL(units) "{\"name\":\"m\"," INPUT "\"units\":[" units "]}"
#define OPS(ops) "{\"name\":\"a\",\"ops\":[" ops "]}"
#define WIDE "{\"type\":\"linear\",\"units\":8000}"
#define CONV "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":3,\"padding\":1}"

/* Models of sequences. */
#define TEXT(units) "{\"name\":\"m\",\"input\":{\"scale\":1},\"units\":[" units "]}"
#define EMBED "{\"type\":\"embedding\",\"rows\":256,\"units\":12}"
#define SCORES "{\"name\":\"head\",\"ops\":[{\"type\":\"linear\",\"units\":\"classes\"}]}"

#endif
