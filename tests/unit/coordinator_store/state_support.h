/* state_support.h: open and flush the store of state, for its tests. */
#ifndef TESTS_UNIT_COORDINATOR_STORE_STATE_SUPPORT_H
#define TESTS_UNIT_COORDINATOR_STORE_STATE_SUPPORT_H

#include "tests/support/test.h"

#include "coordinator/store/state.h"

/* In the directory of the test. */
static inline struct state_store *open_state(void **state)
{
    struct state_store *store = NULL;
    struct err err = {0};
    assert_ok(state_open(*state, &store, &err), &err);
    return store;
}

static inline void flush(struct state_store *store)
{
    struct err err = {0};
    assert_ok(state_flush(store, &err), &err);
}

#endif
