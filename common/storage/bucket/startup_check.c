/* Checks that conditional writes work: see fg_bucket_startup_check(). */
#include "common/base/str.h"
#include "common/storage/bucket/bucket.h"

#include <sys/random.h>

enum { NAME_BYTES = 64, RACERS = 4 };

struct proof {
    struct fg_bucket *bucket;
    int64_t deadline_mono_ns;
    char name[NAME_BYTES];
    struct fg_bucket_etag first, second, third; /* of the object's versions */
    struct fg_id tag;                           /* of the third */
    struct fg_err *err;
};

/* A put, what has to become of it, and the same in words. */
struct trial {
    const char *what;
    const char *content;
    enum fg_bucket_condition condition;
    const struct fg_bucket_etag *if_etag;
    bool in_parts;
    enum fg_code wanted;
    struct fg_bucket_etag *ret_etag;
};

static bool disprove(struct proof *proof, const char *what, const char *why)
{
    (void)fg_fail(
        proof->err, FG_E_UNIMPLEMENTED,
        "this store cannot be used: %s %s; without conditional requests data would be lost", what,
        why);
    return false;
}

/* Returns whether the code is the wanted one. If not, sets the error. */
static bool expect_code(struct proof *proof, const char *what,
                        const struct fg_bucket_request *request, enum fg_code wanted)
{
    enum fg_code code = request->code;

    if (code == wanted)
        return true;
    if (code == FG_OK)
        return disprove(proof, what, "succeeded although its condition failed");
    if (code == FG_E_PRECONDITION)
        return disprove(proof, what, "was refused although its condition held");
    if (code == FG_E_NOT_FOUND && wanted == FG_OK)
        return disprove(proof, what, "did not find the object written before");
    (void)fg_fail(proof->err, code, "%s: %s", what, request->err.msg);
    return false;
}

/* ---- steps ---- */

static bool try_put(struct proof *proof, const struct trial *trial)
{
    struct fg_bucket_request put = {
        .verb = FG_BUCKET_PUT,
        .name = proof->name,
        .content = fg_cstr(trial->content),
        .in_parts = trial->in_parts,
        .condition = trial->condition,
        .deadline_mono_ns = proof->deadline_mono_ns,
    };
    bool ok;

    if (trial->if_etag != NULL)
        put.if_etag = *trial->if_etag;
    (void)fg_bucket_call(proof->bucket, &put);
    ok = expect_code(proof, trial->what, &put, trial->wanted);
    if (ok && trial->ret_etag != NULL) {
        *trial->ret_etag = put.etag;
        proof->tag = put.tag;
    }
    fg_bucket_clear(&put);
    return ok;
}

static bool try_puts(struct proof *proof)
{
    const struct fg_bucket_etag *stale = &proof->first;
    const struct trial trials[] = {
        {"a put if absent of a new name", "one", FG_BUCKET_IF_ABSENT, NULL, false, FG_OK,
         &proof->first},
        {"a put if absent (If-None-Match: *) of an existing object", "two", FG_BUCKET_IF_ABSENT,
         NULL, false, FG_E_PRECONDITION, NULL},
        {"a put if match (If-Match) of the right etag", "two", FG_BUCKET_IF_MATCH, &proof->first,
         false, FG_OK, &proof->second},
        {"a put if match (If-Match) of a stale etag", "three", FG_BUCKET_IF_MATCH, stale, false,
         FG_E_PRECONDITION, NULL},
        {"a multipart put if absent (If-None-Match: *) of an existing object", "three",
         FG_BUCKET_IF_ABSENT, NULL, true, FG_E_PRECONDITION, NULL},
        {"a multipart put if match (If-Match) of a stale etag", "three", FG_BUCKET_IF_MATCH, stale,
         true, FG_E_PRECONDITION, NULL},
        {"a multipart put if match (If-Match) of the right etag", "three", FG_BUCKET_IF_MATCH,
         &proof->second, true, FG_OK, &proof->third},
    };

    for (size_t i = 0; i < FG_COUNT(trials); i++)
        if (!try_put(proof, &trials[i]))
            return false;
    return true;
}

static bool has(const struct fg_bucket_request *get, const char *content,
                const struct fg_bucket_etag *etag)
{
    return fg_slice_is(fg_buf_slice(&get->body), content) && get->size_bytes == 5 &&
           fg_slice_eq(fg_cstr(get->etag.text), fg_cstr(etag->text));
}

static bool try_reads(struct proof *proof)
{
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET,
        .name = proof->name,
        .content_max_bytes = 64,
        .deadline_mono_ns = proof->deadline_mono_ns,
    };
    bool ok;

    (void)fg_bucket_call(proof->bucket, &get);
    ok = expect_code(proof, "a get", &get, FG_OK) &&
         (has(&get, "three", &proof->third) ||
          disprove(proof, "a get", "returned other content or another etag than the last put"));
    if (ok) {
        get.offset = 1;
        get.length = 3;
        (void)fg_bucket_call(proof->bucket, &get);
        ok = expect_code(proof, "a get of a range", &get, FG_OK) &&
             (has(&get, "hre", &proof->third) ||
              disprove(proof, "a get of a range", "returned other content"));
    }
    fg_bucket_clear(&get);
    return ok;
}

static bool try_head(struct proof *proof)
{
    struct fg_bucket_request head = {
        .verb = FG_BUCKET_HEAD,
        .name = proof->name,
        .deadline_mono_ns = proof->deadline_mono_ns,
    };

    (void)fg_bucket_call(proof->bucket, &head);
    if (!expect_code(proof, "a head", &head, FG_OK))
        return false;
    if (head.size_bytes != 5 || !fg_slice_eq(fg_cstr(head.etag.text), fg_cstr(proof->third.text)))
        return disprove(proof, "a head", "returned another size or etag than the last put");
    /* The tag tells a writer whose answer was lost whether the object is its own. */
    if (!fg_id_eq(head.tag, proof->tag))
        return disprove(proof, "a head", "did not return the metadata of the put");
    return true;
}

static bool try_list(struct proof *proof)
{
    struct fg_bucket_request list = {
        .verb = FG_BUCKET_LIST,
        .name = proof->name,
        .deadline_mono_ns = proof->deadline_mono_ns,
    };
    bool ok;

    (void)fg_bucket_call(proof->bucket, &list);
    ok = expect_code(proof, "a list", &list, FG_OK) &&
         ((list.n_entries == 1 && fg_slice_is(fg_cstr(list.entries[0].name), proof->name)) ||
          disprove(proof, "a list", "did not contain the object of the put"));
    fg_bucket_clear(&list);
    return ok;
}

static bool remove_object(struct proof *proof)
{
    struct fg_bucket_request delete = {
        .verb = FG_BUCKET_DELETE,
        .name = proof->name,
        .deadline_mono_ns = proof->deadline_mono_ns,
    };

    (void)fg_bucket_call(proof->bucket, &delete);
    return expect_code(proof, "a delete", &delete, FG_OK);
}

/* Not every store supports conditions of deletes. Nothing depends on them, so such a store is
 * not refused: a store that ignores the condition is only never asked with one. */
static bool try_delete_if(struct proof *proof)
{
    struct fg_bucket_request delete = {
        .verb = FG_BUCKET_DELETE,
        .name = proof->name,
        .condition = FG_BUCKET_IF_MATCH,
        .if_etag = proof->first,
        .deadline_mono_ns = proof->deadline_mono_ns,
    };

    (void)fg_bucket_call(proof->bucket, &delete);
    if (delete.code == FG_OK || delete.code == FG_E_UNIMPLEMENTED) {
        /* No lock: no other thread uses the bucket yet. */
        fg_bucket_base(proof->bucket)->plain_deletes = true;
        return true;
    }
    return expect_code(proof, "a delete if match (If-Match) of a stale etag", &delete,
                       FG_E_PRECONDITION);
}

/* Sends several puts at once, of which exactly one may win. Each has a content of its own, since
 * an etag may be a hash of the content. The condition compares with the first version's etag. */
static bool race(struct proof *proof, enum fg_bucket_condition condition, const char *what)
{
    fg_auto(fg_bucket_wave) *wave = fg_bucket_wave_create();
    struct fg_bucket_request puts[RACERS] = {0};
    const struct fg_bucket_request *put;
    char contents[RACERS][16];
    struct fg_bucket_etag won_etag = proof->first;
    unsigned won = 0;
    bool ok = true;

    for (unsigned i = 0; i < RACERS; i++) {
        puts[i].verb = FG_BUCKET_PUT;
        puts[i].name = proof->name;
        (void)snprintf(contents[i], sizeof contents[i], "race %u %u", (unsigned)condition, i);
        puts[i].content = fg_cstr(contents[i]);
        puts[i].condition = condition;
        puts[i].if_etag = proof->first;
        puts[i].deadline_mono_ns = proof->deadline_mono_ns;
        fg_bucket_wave_send(wave, proof->bucket, &puts[i]);
    }
    while ((put = fg_bucket_wave_next(wave)) != NULL) {
        if (put->code == FG_OK) {
            won_etag = put->etag;
            won++;
        } else {
            ok = expect_code(proof, what, put, FG_E_PRECONDITION) && ok;
        }
    }
    /* The race of IF_MATCH, which follows that of IF_ABSENT, needs the etag of the winner. */
    proof->first = won_etag;
    if (ok && won != 1)
        return disprove(proof, what, won == 0 ? "had no winner" : "had several winners");
    return ok;
}

static bool try_absent(struct proof *proof)
{
    const struct trial trials[] = {
        {"a put if match (If-Match) of a missing object", "x", FG_BUCKET_IF_MATCH, &proof->third,
         false, FG_E_PRECONDITION, NULL},
        {"a multipart put if absent (If-None-Match: *) of a new name", "x", FG_BUCKET_IF_ABSENT,
         NULL, true, FG_OK, NULL},
    };

    return try_put(proof, &trials[0]) && try_put(proof, &trials[1]) && remove_object(proof) &&
           race(proof, FG_BUCKET_IF_ABSENT, "a race of puts if absent (If-None-Match: *)") &&
           race(proof, FG_BUCKET_IF_MATCH, "a race of puts if match (If-Match)");
}

enum fg_code fg_bucket_startup_check(struct fg_bucket *bucket, int64_t deadline_mono_ns,
                                     struct fg_err *err)
{
    struct proof proof = {.bucket = bucket, .deadline_mono_ns = deadline_mono_ns, .err = err};
    struct fg_err ignored;
    uint64_t nonce[2];
    bool ok;

    /* A random name, since several programs may start at the same time. */
    fg_assert(getrandom(nonce, sizeof nonce, 0) == sizeof nonce);
    (void)snprintf(proof.name, sizeof proof.name, "proof/%016llx%016llx",
                   (unsigned long long)nonce[0], (unsigned long long)nonce[1]);
    ok = try_puts(&proof) && try_reads(&proof) && try_head(&proof) && try_list(&proof) &&
         try_delete_if(&proof) && remove_object(&proof) && try_absent(&proof);
    /* After a failure the object is removed as well, but the failure is the error that is told. A
     * directory on a full disk can still be read. */
    if (!ok)
        proof.err = &ignored;
    if ((remove_object(&proof) && ok) ||
        (fg_bucket_base(bucket)->is_local && err->code == FG_E_NO_SPACE))
        return FG_OK;
    return err->code;
}
