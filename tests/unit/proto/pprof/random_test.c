/* Random profiles: written in another way they are the same, and no damage does harm. */
#include "tests/lib/pprof_make.h"
#include "tests/unit/proto/pprof/decoded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MODEL_FUNCTIONS = 12, MODEL_LOCATIONS = 20, MODEL_SAMPLES = 40, MODEL_DEPTH = 6 };

struct model_sample {
    uint32_t locations[MODEL_DEPTH], depth;
    int64_t values[2];
    struct make_label labels[3];
    uint32_t n_labels;
};

/* What a profile says, whatever way it is written. */
struct model {
    char names[MODEL_FUNCTIONS][8];
    struct make_line lines[MODEL_LOCATIONS][2];
    uint32_t n_lines[MODEL_LOCATIONS];
    uint64_t addresses[MODEL_LOCATIONS], mappings[MODEL_LOCATIONS];
    struct model_sample samples[MODEL_SAMPLES];
    uint32_t n_samples;
};

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

static void model_random(struct model *model, uint64_t *random)
{
    static const char *const threads[] = {"main", "gc", "io"};
    static const char *const spans[] = {"0100000000000000", "0200000000000000"};

    memset(model, 0, sizeof *model);
    for (size_t i = 0; i < MODEL_FUNCTIONS; i++)
        (void)snprintf(model->names[i], sizeof model->names[i], "f%u",
                       (unsigned)(next_random(random) % 9));
    for (size_t i = 0; i < MODEL_LOCATIONS; i++) {
        model->n_lines[i] = (uint32_t)(next_random(random) % 3);
        model->addresses[i] = 1 + next_random(random) % 5;
        model->mappings[i] = next_random(random) % 3;
        for (size_t k = 0; k < 2; k++)
            model->lines[i][k] = (struct make_line){next_random(random) % MODEL_FUNCTIONS,
                                                    (int64_t)(next_random(random) % 3)};
    }
    model->n_samples = (uint32_t)(next_random(random) % MODEL_SAMPLES);
    for (uint32_t i = 0; i < model->n_samples; i++) {
        struct model_sample *sample = &model->samples[i];

        sample->depth = (uint32_t)(next_random(random) % MODEL_DEPTH);
        for (uint32_t k = 0; k < sample->depth; k++)
            sample->locations[k] = (uint32_t)(next_random(random) % MODEL_LOCATIONS);
        sample->values[0] = (int64_t)(next_random(random) % 4);
        sample->values[1] = (int64_t)(next_random(random) % 4) - 1;
        if (next_random(random) % 2 == 0)
            sample->labels[sample->n_labels++] =
                (struct make_label){"thread", threads[next_random(random) % 3], 0};
        if (next_random(random) % 3 == 0)
            sample->labels[sample->n_labels++] =
                (struct make_label){"span_id", spans[next_random(random) % 2], 0};
        if (next_random(random) % 3 == 0)
            sample->labels[sample->n_labels++] = (struct make_label){"bytes", NULL, 7};
    }
}

/* A random order of count things. */
static void shuffle(uint32_t *order, uint32_t count, uint64_t *random)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = (uint32_t)(next_random(random) % i), swap = order[i - 1];

        order[i - 1] = order[k];
        order[k] = swap;
    }
}

static void write_sample(struct make *make, const struct model_sample *sample,
                         const uint64_t *location_ids, uint64_t *random)
{
    uint64_t locations[MODEL_DEPTH];
    struct make_label labels[3];
    uint32_t order[3];

    for (uint32_t i = 0; i < sample->depth; i++)
        locations[i] = location_ids[sample->locations[i]];
    shuffle(order, sample->n_labels, random);
    for (uint32_t i = 0; i < sample->n_labels; i++)
        labels[i] = sample->labels[order[i]];
    make_sample(make, &(struct make_sample){locations, sample->depth, sample->values, 2, labels,
                                            sample->n_labels});
}

/* Ids, order, packing and the place of the strings at random. */
static void model_write(const struct model *model, struct make *make, uint64_t *random)
{
    uint32_t order[MODEL_SAMPLES];
    uint64_t function_ids[MODEL_FUNCTIONS], location_ids[MODEL_LOCATIONS];
    bool counted = next_random(random) % 2 == 0;

    make_start(make);
    make->unpacked = next_random(random) % 2 == 0;
    for (int i = 0; i < 5; i++) { /* strings nobody needs move the numbers of the others */
        char text[24];

        (void)snprintf(text, sizeof text, "%llx", (unsigned long long)next_random(random));
        (void)make_string(make, text);
    }
    make_type(make, "samples", "count");
    make_type(make, "cpu", "nanoseconds");
    if (next_random(random) % 2 == 0)
        make_strings(make);
    make_mapping(make, 1, 0x1000, "/bin/a", false);
    make_mapping(make, 2, 0x2000, "/bin/b", true);
    shuffle(order, MODEL_FUNCTIONS, random);
    for (uint32_t i = 0; i < MODEL_FUNCTIONS; i++) {
        uint32_t f = order[i];

        function_ids[f] = counted ? i + 1 : 1 + next_random(random);
        make_function(make, function_ids[f], model->names[f], "", "file", 3);
    }
    shuffle(order, MODEL_LOCATIONS, random);
    for (uint32_t i = 0; i < MODEL_LOCATIONS; i++) {
        uint32_t l = order[i];
        struct make_line lines[2];

        for (size_t k = 0; k < 2; k++)
            lines[k] = (struct make_line){function_ids[model->lines[l][k].function],
                                          model->lines[l][k].line};
        location_ids[l] = counted ? i + 1 : 1 + next_random(random);
        make_location(make, location_ids[l], model->mappings[l], model->addresses[l], lines,
                      model->n_lines[l]);
    }
    shuffle(order, model->n_samples, random);
    for (uint32_t i = 0; i < model->n_samples; i++)
        write_sample(make, &model->samples[order[i]], location_ids, random);
}

static int id_order(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

/* All ids of profiles, then of stacks with samples, each sorted. */
static size_t sorted_ids(const struct fg_batch *batch, struct fg_id *ids)
{
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        ids[i] = batch->profiles[i].id;
    for (uint32_t i = 0; i < batch->n_stacks; i++)
        ids[batch->n_profiles + i] = batch->stacks[i].id;
    qsort(ids, batch->n_profiles, sizeof *ids, id_order);
    qsort(ids + batch->n_profiles, batch->n_stacks, sizeof *ids, id_order);
    return batch->n_profiles + batch->n_stacks;
}

static void order_makes_no_difference(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct fg_id ids[2][2 * MODEL_SAMPLES];
        struct decoded decoded[2];
        uint64_t random = seed;
        struct model model;
        struct make make;
        size_t counts[2];

        model_random(&model, &random);
        for (size_t i = 0; i < 2; i++) {
            model_write(&model, &make, &random);
            decode(&decoded[i], make_finish(&make));
            counts[i] = sorted_ids(&decoded[i].batch, ids[i]);
            decoded_done(&decoded[i]);
            make_done(&make);
        }
        if (counts[0] != counts[1] || memcmp(ids[0], ids[1], counts[0] * sizeof ids[0][0]) != 0)
            fail_msg("seed %llu", (unsigned long long)seed);
    }
}

/* Changes one thing that counts. */
static void model_change(struct model *model, uint64_t *random)
{
    struct model_sample *sample = &model->samples[next_random(random) % model->n_samples];

    sample->values[0] += 1;
    sample->values[1] = 1; /* so that the sample stays whatever it was */
}

static void other_content_is_another_profile(void **state)
{
    size_t compared = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct fg_id ids[2][2 * MODEL_SAMPLES];
        struct decoded decoded;
        uint64_t random = seed;
        struct model model;
        struct make make;
        size_t counts[2];

        model_random(&model, &random);
        if (model.n_samples == 0)
            continue;
        for (size_t i = 0; i < 2; i++) {
            model_write(&model, &make, &random);
            decode(&decoded, make_finish(&make));
            (void)sorted_ids(&decoded.batch, ids[i]);
            counts[i] = decoded.batch.n_profiles;
            decoded_done(&decoded);
            make_done(&make);
            model_change(&model, &random);
        }
        if (counts[0] == counts[1] && memcmp(ids[0], ids[1], counts[0] * sizeof ids[0][0]) == 0)
            fail_msg("seed %llu", (unsigned long long)seed);
        compared++;
    }
    assert_true(compared > 250);
}

/* Every prefix of a profile, and every single byte changed, ends in an answer. */
static void damage_is_survived(void **state)
{
    struct fg_pprof_request request = decode_plain_request();
    uint64_t random = 5;
    struct model model;
    struct make make;
    struct fg_slice in;

    (void)state;
    model_random(&model, &random);
    model.n_samples = 10;
    model_write(&model, &make, &random);
    in = make_finish(&make);
    for (size_t i = 0; i < in.len; i++) {
        uint8_t *copy = fg_malloc(i + 1);
        struct decoded decoded;

        memcpy(copy, in.ptr, i); /* of its own, so that reading past the end is seen */
        decode_by(&decoded, fg_bytes(copy, i), &request);
        decoded_done(&decoded);
        free(copy);
        make.out.ptr[i] ^= (uint8_t)(1 + next_random(&random) % 255);
        decode_by(&decoded, in, &request);
        decoded_done(&decoded);
    }
    make_done(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_makes_no_difference),
        cmocka_unit_test(other_content_is_another_profile),
        cmocka_unit_test(damage_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
