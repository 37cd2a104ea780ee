/* Status (two bytes) and body of an answer to a parcel of two batches: a profile is done only if
 * the answer has named one more, and a target that always answers this ends the parcel all the
 * same. */
#include "tests/unit/ingester/forward/parcel_run.h"

enum { ROUNDS_MAX = 64, STACKS_REMEMBERED = 100 };

static struct parcel_run run;

static void set_up(void)
{
    if (run.store != NULL)
        return;
    parcel_run_open(&run, "");
    fg_definition_cache_destroy(fg_take(run.common.definition_cache));
    for (unsigned n = 0; n < 4; n++)
        (void)parcel_run_push(&run, n);
    (void)parcel_run_push_of(&run, 4, "tenant", "cart", NULL);
}

static size_t count(enum ing_outbox_outcome outcome)
{
    size_t n = 0;

    for (size_t i = 0; i < run.parcel->n_items; i++)
        n += run.parcel->outbox_items[i].outcome == outcome;
    return n;
}

/* Of how many profiles an answer says that they are there. */
static uint64_t named(const struct ing_parcel_answer *answer)
{
    Forward__V1__PushResponse *response;
    uint64_t n = 0;

    if (answer->status != 200)
        return 0;
    response = forward__v1__push_response__unpack(NULL, answer->body.len, answer->body.ptr);
    for (size_t i = 0; response != NULL && i < response->n_results; i++)
        n += (uint64_t)response->results[i]->stored + response->results[i]->known +
             response->results[i]->dropped;
    forward__v1__push_response__free_unpacked(response, NULL);
    return n;
}

static void answer_all(const struct ing_parcel_answer *answer)
{
    enum ing_sender_result result = SENDER_TAKEN;

    for (unsigned rounds = 0; result == SENDER_TAKEN && parcel_run_build(&run); rounds++) {
        size_t done = count(OUTBOX_DONE);
        struct fg_err err;
        bool unknown;

        fg_assert(rounds < ROUNDS_MAX);
        result = ing_parcel_answer(run.parcel, answer, &unknown, &err);
        fg_assert(!unknown || result == SENDER_AWAY);
        fg_assert(count(OUTBOX_DONE) - done <= named(answer));
        fg_assert(result == SENDER_TAKEN || answer->status != 200 ||
                  count(OUTBOX_AGAIN) > 0); /* what the target has not decided */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ing_parcel_answer answer = {.came = true};

    if (size < 2)
        return 0;
    set_up();
    answer.status = (data[0] | (unsigned)data[1] << 8) % 1000;
    answer.body = fg_bytes(data + 2, size - 2);
    run.common.definition_cache = fg_definition_cache_create(STACKS_REMEMBERED);
    parcel_run_take(&run);
    answer_all(&answer);
    for (size_t i = 0; i < run.parcel->n_items; i++) /* all of it waits for the next input */
        run.parcel->outbox_items[i].outcome = OUTBOX_AGAIN;
    ing_parcel_end(fg_take(run.parcel));
    fg_definition_cache_destroy(fg_take(run.common.definition_cache));
    return 0;
}
