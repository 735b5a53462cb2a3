#include "libtrain/description/zoo.h"

#include <string.h>

#include "base/embedded.h"

extern const struct embedded zoo_files[]; /* libtrain/zoo */

const char *zoo_name(size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (!zoo_files[i].name) {
            return NULL;
        }
    }
    return zoo_files[index].name;
}

const struct model_fit *zoo_fit(const char *name)
{
    static const struct {
        const char *name;
        struct model_fit fit;
    } table[] = {
        {"mlp", {{28, 28, 1}, DTYPE_U8, 10, 1}},
        {"lenet5", {{28, 28, 1}, DTYPE_U8, 10, 1}},
        {"resnet8", {{32, 32, 3}, DTYPE_U8, 10, 1}},
        {"mobilenetv2", {{32, 32, 3}, DTYPE_U8, 10, 1}},
        {"alexnet-cifar", {{32, 32, 3}, DTYPE_U8, 10, 1}},
        {"vgg11-bn", {{32, 32, 3}, DTYPE_U8, 10, 1}},
        {"vgg16-bn", {{32, 32, 3}, DTYPE_U8, 10, 1}},
        {"resnet18", {{32, 32, 3}, DTYPE_U8, 10, 1}},
        {"resnet50", {{224, 224, 3}, DTYPE_U8, 1000, 1}},
        {"googlenet", {{224, 224, 3}, DTYPE_U8, 1000, 1}},
        {"mobilenetv2-224", {{224, 224, 3}, DTYPE_U8, 1000, 1}},
        {"dscnn-kws", {{49, 10, 1}, DTYPE_F32, 12, 1}},
        {"gpt-mini", {{64, 1, 1}, DTYPE_U8, 256, 64}},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0) {
            return &table[i].fit;
        }
    }
    return NULL;
}

const char *zoo_text(const char *name)
{
    for (const struct embedded *entry = zoo_files; entry->name; entry++) {
        if (strcmp(entry->name, name) == 0) {
            return entry->text;
        }
    }
    return NULL;
}
