/* The law on the convolutional models of the zoo: random partitions, on one and on two threads,
 * give the bits of one stage; with oneDNN in the build also with kernels of all kinds. Inputs are
 * smaller than the models are meant for, where they take such.
 *
 *   test_law_zoo [PARTITIONS]     of each model; default: 1, in a shorter training, and without
 *                                 VGG16 and ResNet50, whose ops other models have */
#include <stdlib.h>

#include "libtrain/kernels/op_workspace.h"
#include "libtrain/train.h"
#include "tests/unit/libtrain_stage/law.h"

#define PARTITIONS_MAX 1000

/* Set by main, before the tests. */
static int partitions = 1;
static struct law_run run = {.batch = 4, .micro_batches = 2, .steps = 2};

/* Any kernel that can, for each pass of each convolution. Not oneDNN's Winograd: which shapes it
 * takes is the library's to say. */
static void draw_kernels(struct model *model)
{
    struct draws draws = draws_new(11);
    for (size_t u = 0; u < model->unit_count; u++) {
        for (size_t k = 0; k < model->unit[u].op_count; k++) {
            struct op *op = &model->unit[u].op[k];
            struct conv2d_shape shape = op_conv2d_shape(op, 1);
            for (size_t pass = 0; pass < CONV2D_PASSES && op->type == OP_CONV2D; pass++) {
                enum conv2d_kernel kernel;
                do {
                    kernel =
                        (enum conv2d_kernel)draw_size(&draws, CONV2D_COLUMNS, CONV2D_ONEDNN_NHWC);
                } while (!conv2d_kernel_can(kernel, &shape, (enum conv2d_pass)pass));
                op->kernels.pass[pass] = (uint8_t)kernel;
            }
        }
    }
}

static void check_model(void **state, const char *name, uint32_t h, uint32_t w, uint32_t c)
{
    struct law law = law_new(state, zoo_model(name, h, w, c), run);
    law_check_random_partitions(&law, partitions);
    law_done(&law);
    if (train_backend() == CONV2D_BACKEND_ONEDNN) {
        struct model *model = zoo_model(name, h, w, c);
        draw_kernels(model);
        law = law_new(state, model, run);
        law_check_random_partitions(&law, partitions);
        law_done(&law);
    }
}

static void partitions_of_alexnet_cifar_give_the_same_bits(void **state)
{
    check_model(state, "alexnet-cifar", 32, 32, 3);
}

static void partitions_of_vgg11_bn_give_the_same_bits(void **state)
{
    check_model(state, "vgg11-bn", 32, 32, 3);
}

static void partitions_of_vgg16_bn_give_the_same_bits(void **state)
{
    check_model(state, "vgg16-bn", 32, 32, 3);
}

static void partitions_of_resnet18_give_the_same_bits(void **state)
{
    check_model(state, "resnet18", 16, 16, 3);
}

static void partitions_of_resnet50_give_the_same_bits(void **state)
{
    check_model(state, "resnet50", 48, 33, 3);
}

static void partitions_of_googlenet_give_the_same_bits(void **state)
{
    check_model(state, "googlenet", 50, 39, 3);
}

static void partitions_of_mobilenetv2_224_give_the_same_bits(void **state)
{
    check_model(state, "mobilenetv2-224", 64, 47, 3);
}

static void partitions_of_dscnn_kws_give_the_same_bits(void **state)
{
    check_model(state, "dscnn-kws", 49, 10, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partitions_of_alexnet_cifar_give_the_same_bits),
        cmocka_unit_test(partitions_of_vgg11_bn_give_the_same_bits),
        cmocka_unit_test(partitions_of_resnet18_give_the_same_bits),
        cmocka_unit_test(partitions_of_googlenet_give_the_same_bits),
        cmocka_unit_test(partitions_of_mobilenetv2_224_give_the_same_bits),
        cmocka_unit_test(partitions_of_dscnn_kws_give_the_same_bits),
    };
    const struct CMUnitTest deep[] = {
        cmocka_unit_test(partitions_of_vgg16_bn_give_the_same_bits),
        cmocka_unit_test(partitions_of_resnet50_give_the_same_bits),
    };
    if (argc > 1) {
        long count = strtol(argv[1], NULL, 10);
        if (count < 1 || count > PARTITIONS_MAX) {
            print_error("usage: test_law_zoo [PARTITIONS from 1 to %d]\n", PARTITIONS_MAX);
            return 2;
        }
        partitions = (int)count;
        run = (struct law_run){.batch = 8, .micro_batches = 4, .steps = 3};
    }
    int failed = cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
    if (argc > 1) {
        failed += cmocka_run_group_tests(deep, kernel_pools_setup, kernel_pools_teardown);
    }
    return failed;
}
