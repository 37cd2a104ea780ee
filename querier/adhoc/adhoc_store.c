#include "querier/adhoc/adhoc_store.h"

#include "common/base/crc32c.h"
#include "common/storage/bucket/message_object.h"

#include <sys/random.h>

enum {
    ENTRIES_MAX = 20000, /* twice the largest limits.adhoc_profiles_max */
    ID_SHOWN_CHARS = 150,
};

static enum fg_code check_bucket(const struct qry_adhoc_store *store, struct fg_err *err)
{
    return store->bucket != NULL
               ? FG_OK
               : fg_fail(err, FG_E_UNIMPLEMENTED, "ad hoc profiles need a bucket");
}

static bool has_expired(const struct qry_adhoc_store *store, const struct fg_adhoc_name *name)
{
    return fg_adhoc_has_expired(name, store->limits->adhoc_retention_period_ns, store->now_ms);
}

/* ---- lists ---- */

struct adhoc_listing {
    const struct qry_adhoc_store *store;
    struct qry_adhoc_entry *entries;
    uint32_t n, cap;
    bool full;
};

static bool add_entry(const struct fg_bucket_entry *entry, void *arg)
{
    struct adhoc_listing *listing = arg;
    struct qry_adhoc_entry found = {.bytes = entry->size_bytes};

    /* The folder may have objects of a newer version, which this one does not know. */
    if (!fg_name_parse_adhoc(fg_cstr(entry->name), &found.name) ||
        has_expired(listing->store, &found.name))
        return true;
    /* The list ends with a flag: a callback has no error of its own. */
    listing->full = listing->n == ENTRIES_MAX ||
                    !fg_arena_grow(listing->store->arena, &listing->entries, listing->n, 1,
                                   &listing->cap, sizeof *listing->entries);
    if (listing->full)
        return false;
    listing->entries[listing->n++] = found;
    return true;
}

static int newest_first(const void *left, const void *right)
{
    const struct qry_adhoc_entry *a = left, *b = right;

    if (a->name.uploaded_ms != b->name.uploaded_ms)
        return a->name.uploaded_ms > b->name.uploaded_ms ? -1 : 1;
    /* By id, so that files of one millisecond keep their order from list to list. */
    return strcmp(a->name.id, b->name.id);
}

enum fg_code qry_adhoc_list(const struct qry_adhoc_store *store,
                            struct qry_adhoc_entry **ret_entries, size_t *ret_n, struct fg_err *err)
{
    struct adhoc_listing listing = {.store = store};
    char prefix[FG_NAME_ADHOC_MAX_BYTES];

    if (check_bucket(store, err) != FG_OK || fg_name_adhoc_all(prefix, store->tenant, err) != FG_OK)
        return err->code;
    if (fg_bucket_each(store->bucket, prefix, false, store->deadline_mono_ns, add_entry, &listing,
                       err) != FG_OK)
        return fg_message_object_fault(err);
    if (listing.full)
        return fg_fail(err, FG_E_LIMIT, "there are more than %d ad hoc profiles", ENTRIES_MAX);
    if (listing.n > 1)
        qsort(listing.entries, listing.n, sizeof *listing.entries, newest_first);
    *ret_entries = listing.entries;
    *ret_n = listing.n;
    return FG_OK;
}

enum fg_code qry_adhoc_find(const struct qry_adhoc_store *store, struct fg_slice id,
                            struct qry_adhoc_entry *ret_entry, struct fg_err *err)
{
    struct fg_slice bits = fg_slice_sub(id, 0, FG_ADHOC_ID_CHARS);
    struct fg_slice file = fg_slice_sub(id, FG_ADHOC_ID_CHARS, SIZE_MAX);
    /* One entry: an id is random, so no two objects begin with the same one. */
    struct fg_bucket_request list = {
        .verb = FG_BUCKET_LIST, .page_max = 1, .deadline_mono_ns = store->deadline_mono_ns};
    char folder[FG_NAME_ADHOC_MAX_BYTES], prefix[FG_NAME_ADHOC_MAX_BYTES + FG_ADHOC_ID_CHARS + 1];
    struct qry_adhoc_entry entry = {0};
    bool found;

    if (check_bucket(store, err) != FG_OK || fg_name_adhoc_all(folder, store->tenant, err) != FG_OK)
        return err->code;
    /* The prefix of a request to the bucket, so nothing but an id may get into it. */
    if (!fg_adhoc_id_is_valid(bits))
        return fg_fail(err, FG_E_NOT_FOUND, "profile %.*s not found",
                       FG_S(fg_slice_sub(id, 0, ID_SHOWN_CHARS)));
    (void)snprintf(prefix, sizeof prefix, "%s%.*s-", folder, FG_S(bits));
    list.name = prefix;
    if (fg_bucket_call(store->bucket, &list) != FG_OK) {
        *err = list.err;
        fg_bucket_clear(&list);
        return fg_message_object_fault(err);
    }
    found = list.n_entries > 0 && fg_name_parse_adhoc(fg_cstr(list.entries[0].name), &entry.name) &&
            !has_expired(store, &entry.name) &&
            (file.len == 0 || (fg_slice_starts(file, "-") &&
                               fg_slice_is(fg_slice_sub(file, 1, SIZE_MAX), entry.name.file)));
    if (found)
        entry.bytes = list.entries[0].size_bytes;
    fg_bucket_clear(&list);
    if (!found)
        return fg_fail(err, FG_E_NOT_FOUND, "profile %.*s not found",
                       FG_S(fg_slice_sub(id, 0, ID_SHOWN_CHARS)));
    *ret_entry = entry;
    return FG_OK;
}

/* ---- changes ---- */

enum fg_code qry_adhoc_admit(const struct qry_adhoc_store *store, uint64_t bytes,
                             struct fg_err *err)
{
    const struct fg_limit_settings *limits = store->limits;
    struct qry_adhoc_entry *entries = NULL;
    uint64_t total = bytes;
    size_t n = 0;

    /* Before the list, which is a request to the bucket. */
    if (bytes > store->file_max_bytes)
        return fg_fail(err, FG_E_TOO_LARGE,
                       "the file has %llu bytes, more than %llu (querier.adhoc_upload_max_bytes)",
                       (unsigned long long)bytes, (unsigned long long)store->file_max_bytes);
    /* Without a lock: uploads of one moment may exceed the limits, one for each worker. */
    if (qry_adhoc_list(store, &entries, &n, err) != FG_OK)
        return err->code;
    if (n >= limits->adhoc_profiles_max)
        return fg_fail(err, FG_E_TOO_MUCH,
                       "the tenant has %zu ad hoc profiles already (limits.adhoc_profiles_max): "
                       "delete some",
                       n);
    for (size_t i = 0; i < n; i++)
        total += entries[i].bytes;
    if (limits->adhoc_bytes_max > 0 && total > limits->adhoc_bytes_max)
        return fg_fail(err, FG_E_TOO_MUCH,
                       "with this file the ad hoc profiles of the tenant would have %llu bytes, "
                       "more than %llu (limits.adhoc_bytes_max): delete some",
                       (unsigned long long)total, (unsigned long long)limits->adhoc_bytes_max);
    return FG_OK;
}

enum fg_code qry_adhoc_add(const struct qry_adhoc_store *store, struct fg_slice file,
                           struct fg_slice content, struct qry_adhoc_entry *ret_entry,
                           struct fg_err *err)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT,
                                    .content = content,
                                    .condition = FG_BUCKET_IF_ABSENT,
                                    .deadline_mono_ns = store->deadline_mono_ns};
    struct qry_adhoc_entry entry = {
        .name = {.uploaded_ms = FG_MAX(store->now_ms, 0), .crc = fg_crc32c(content)},
        .bytes = content.len};
    char object[FG_NAME_ADHOC_MAX_BYTES];
    enum fg_code code;
    struct fg_id bits;

    /* Up to 256 bytes getrandom() neither fails nor stops early (getrandom(2)). */
    fg_assert(getrandom(&bits, sizeof bits, 0) == sizeof bits);
    fg_adhoc_id_write(bits, entry.name.id);
    fg_adhoc_file_write(file, entry.name.file);
    if (check_bucket(store, err) != FG_OK || fg_tenant_check(store->tenant, err) != FG_OK)
        return err->code;
    (void)snprintf(entry.name.tenant, sizeof entry.name.tenant, "%.*s", FG_S(store->tenant));
    if (fg_name_adhoc(object, &entry.name, err) != FG_OK)
        return err->code;
    put.name = object;
    code = fg_bucket_call(store->bucket, &put);
    /* Nobody else writes an object of this id: it is ours, of a try whose answer was lost. */
    if (code == FG_E_PRECONDITION)
        code = FG_OK;
    if (code == FG_OK) {
        *ret_entry = entry;
    } else {
        *err = put.err;
        code = fg_message_object_fault(err);
    }
    fg_bucket_clear(&put);
    return code;
}

enum fg_code qry_adhoc_delete(const struct qry_adhoc_store *store,
                              const struct qry_adhoc_entry *entry, struct fg_err *err)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_DELETE,
                                        .deadline_mono_ns = store->deadline_mono_ns};
    char object[FG_NAME_ADHOC_MAX_BYTES];
    enum fg_code code;

    if (fg_name_adhoc(object, &entry->name, err) != FG_OK)
        return err->code;
    request.name = object;
    code = fg_bucket_call(store->bucket, &request);
    if (code != FG_OK) {
        *err = request.err;
        code = fg_message_object_fault(err);
    }
    fg_bucket_clear(&request);
    return code;
}

/* ---- contents ---- */

enum fg_code qry_adhoc_read(const struct qry_adhoc_store *store,
                            const struct qry_adhoc_entry *entry, struct fg_buf *ret_content,
                            struct fg_err *err)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .content_max_bytes = store->file_max_bytes,
                                    .deadline_mono_ns = store->deadline_mono_ns};
    char object[FG_NAME_ADHOC_MAX_BYTES];
    enum fg_code code;

    if (fg_name_adhoc(object, &entry->name, err) != FG_OK)
        return err->code;
    get.name = object;
    code = fg_bucket_call(store->bucket, &get);
    if (code == FG_E_NOT_FOUND)
        (void)fg_fail(err, FG_E_NOT_FOUND, "profile %s-%s not found", entry->name.id,
                      entry->name.file);
    else if (code == FG_E_TOO_LARGE)
        (void)fg_fail(err, FG_E_TOO_LARGE,
                      "the file has %llu bytes, more than %llu (querier.adhoc_upload_max_bytes)",
                      (unsigned long long)entry->bytes, (unsigned long long)store->file_max_bytes);
    else if (code != FG_OK) {
        *err = get.err;
        code = fg_message_object_fault(err);
    }
    /* The checksum is in the name, since the content belongs to the user, byte for byte. */
    else if (fg_crc32c(fg_buf_slice(&get.body)) != entry->name.crc)
        code =
            fg_fail(err, FG_E_CORRUPT, "object %s is damaged: its checksum does not match", object);
    if (code == FG_OK) {
        *ret_content = get.body;
        fg_buf_init(&get.body, 0); /* it is the caller's now */
    }
    fg_bucket_clear(&get);
    return code;
}
