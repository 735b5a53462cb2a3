#include "libtrain/optim/optimizer.h"

#include "libtrain/optim/adam.h"
#include "libtrain/optim/sgd.h"

static void update_sgd(const struct compute *compute, const struct optimizer_call *call)
{
    sgd_step(compute, call->optimizer, call->rate, call->count, call->before, call->parameter,
             call->gradient, call->array[0]);
}

static void update_adam(const struct compute *compute, const struct optimizer_call *call)
{
    adam_step(compute, call->optimizer, call->step, call->rate, call->count, call->before,
              call->parameter, call->gradient, call->array[0], call->array[1]);
}

static void (*const updates[])(const struct compute *compute, const struct optimizer_call *call) = {
    [OPTIMIZER_SGD] = update_sgd,
    [OPTIMIZER_ADAM] = update_adam,
    [OPTIMIZER_ADAMW] = update_adam,
};

void optimizer_update(const struct compute *compute, const struct optimizer_call *call)
{
    updates[call->optimizer->type](compute, call);
}
