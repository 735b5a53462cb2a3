/* Which devices have data for a job whose data stay on devices. */
#include <stdio.h>
#include <string.h>

#include "coordinator/core/placement/matching.h"
#include "tests/support/test.h"

static const struct offer photos = {.name = "photos",
                                    .sha256 = "aa",
                                    .samples = 100,
                                    .height = 28,
                                    .width = 28,
                                    .channels = 1,
                                    .dtype = "U8",
                                    .classes = 10};

/* A job on the photos, with batches of 32. */
static void init_spec(struct job_spec *spec)
{
    *spec = job_spec_default;
    (void)snprintf(spec->train_local.name, sizeof(spec->train_local.name), "photos");
    offer_form(&photos, spec->train_local.form);
    spec->train_local.classes = 10;
}

static bool fits(const struct job_spec *spec, const struct offer *offer)
{
    static struct device device;
    const struct placement_request request = {.spec = spec};
    memset(&device, 0, sizeof(device));
    (void)snprintf(device.id.text, sizeof(device.id.text), "dev_1");
    device.offer[device.offer_count++] = (struct offer){.name = "others", .samples = 100};
    device.offer[device.offer_count++] = *offer;
    return matching_data(&request, &device);
}

static void a_device_fits_with_data_of_the_form_of_the_job(void **state)
{
    (void)state;
    static struct job_spec spec;
    init_spec(&spec);
    struct offer offer = photos;
    assert_true(fits(&spec, &offer));
    offer.classes = 7; /* it lacks the last ones */
    assert_true(fits(&spec, &offer));
    offer.classes = 11;
    assert_false(fits(&spec, &offer));
    offer = photos;
    offer.samples = 31;
    assert_false(fits(&spec, &offer));
    offer = photos;
    offer.height = 14;
    assert_false(fits(&spec, &offer));
    offer = photos;
    memcpy(offer.dtype, "F32", sizeof("F32"));
    assert_false(fits(&spec, &offer));
    offer = photos;
    offer.positions = 2;
    assert_false(fits(&spec, &offer));
    offer = photos;
    memset(offer.class_names_sha256, 'e', SHA256_SIZE - 1);
    assert_false(fits(&spec, &offer));
    offer = photos;
    (void)snprintf(offer.reading, sizeof(offer.reading), "size=28x28,channels=1");
    assert_false(fits(&spec, &offer));
    offer = photos;
    offer.name[0] = 'f';
    assert_false(fits(&spec, &offer));
}

static void a_group_fits_on_its_device_alone_while_its_data_are_the_same(void **state)
{
    (void)state;
    static struct job_spec spec;
    init_spec(&spec);
    (void)snprintf(spec.train_local.device.text, ID_SIZE, "dev_1");
    (void)snprintf(spec.train_local.sha256, SHA256_SIZE, "aa");
    assert_true(fits(&spec, &photos));
    (void)snprintf(spec.train_local.sha256, SHA256_SIZE, "bb");
    assert_false(fits(&spec, &photos));
    (void)snprintf(spec.train_local.sha256, SHA256_SIZE, "aa");
    (void)snprintf(spec.train_local.device.text, ID_SIZE, "dev_2");
    assert_false(fits(&spec, &photos));
}

static void a_group_fits_on_data_that_extend_its_own(void **state)
{
    (void)state;
    static struct job_spec spec;
    init_spec(&spec);
    (void)snprintf(spec.train_local.device.text, ID_SIZE, "dev_1");
    (void)snprintf(spec.train_local.sha256, SHA256_SIZE, "aa");
    struct offer offer = photos;
    (void)snprintf(offer.sha256, SHA256_SIZE, "cc");
    offer.samples = 140;
    offer.part[0] = (struct offer_part){.sha256 = "aa", .samples = 100};
    offer.part[1] = (struct offer_part){.sha256 = "bb", .samples = 120};
    offer.part_count = 2;
    assert_true(offer_grows(&offer));
    assert_true(fits(&spec, &offer));
    (void)snprintf(spec.train_local.sha256, SHA256_SIZE, "bb");
    assert_true(fits(&spec, &offer));
    (void)snprintf(spec.train_local.sha256, SHA256_SIZE, "dd");
    assert_false(fits(&spec, &offer));
    offer.part[1].samples = 140;
    assert_false(offer_grows(&offer));
    offer.part[1].samples = 100;
    assert_false(offer_grows(&offer));
}

static void a_job_on_uploaded_data_fits_everywhere(void **state)
{
    (void)state;
    static struct job_spec spec;
    init_spec(&spec);
    spec.train_local.name[0] = '\0';
    assert_true(fits(&spec, &(struct offer){.name = "none"}));
}

static void a_device_has_a_batch_beside_what_it_holds_out(void **state)
{
    (void)state;
    static struct job_spec spec;
    init_spec(&spec);
    struct offer offer = photos;
    assert_int_equal(job_held(&spec, &offer), 0);
    spec.test_local.holdout = 0.5;
    for (offer.samples = 1; offer.samples < 100; offer.samples++) {
        const int64_t held = job_held(&spec, &offer);
        assert_true(held >= 1 && 2 * held >= offer.samples - 1 && 2 * held <= offer.samples + 1);
        assert_int_equal(fits(&spec, &offer), offer.samples - held >= spec.batch);
    }
    offer.class_count_count = 4; /* 25 samples of each */
    for (size_t c = 0; c < 4; c++) {
        offer.class_count[c] = 25;
    }
    const int64_t held = job_held(&spec, &offer);
    assert_true(held >= 48 && held <= 52);
}

static void weights_follow_samples_unless_the_job_says_otherwise(void **state)
{
    (void)state;
    static struct job_spec spec;
    init_spec(&spec);
    assert_true(gossip_by_samples(&spec));
    spec.gossip.has_average_by = true;
    spec.gossip.average_by = AVERAGE_GROUPS;
    assert_false(gossip_by_samples(&spec));
    spec = job_spec_default;
    assert_false(gossip_by_samples(&spec));
    spec.gossip.has_average_by = true;
    spec.gossip.average_by = AVERAGE_SAMPLES;
    assert_true(gossip_by_samples(&spec));
}

static void the_longest_form_is_written(void **state)
{
    (void)state;
    struct offer offer = photos;
    char form[OFFER_FORM_SIZE];
    offer.height = offer.width = offer.channels = INT64_C(4294967295);
    offer.positions = POSITIONS_MAX;
    memset(offer.class_names_sha256, 'e', SHA256_SIZE - 1);
    memset(offer.reading, 'r', READING_SIZE - 1);
    memset(offer.dtype, 'D', sizeof(offer.dtype) - 1);
    offer_form(&offer, form);
    assert_holds(form, "4294967295x4294967295x4294967295 DDDDDDD labels=32767 names=eeee");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_fits_with_data_of_the_form_of_the_job),
        cmocka_unit_test(a_group_fits_on_its_device_alone_while_its_data_are_the_same),
        cmocka_unit_test(a_group_fits_on_data_that_extend_its_own),
        cmocka_unit_test(a_job_on_uploaded_data_fits_everywhere),
        cmocka_unit_test(a_device_has_a_batch_beside_what_it_holds_out),
        cmocka_unit_test(weights_follow_samples_unless_the_job_says_otherwise),
        cmocka_unit_test(the_longest_form_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
