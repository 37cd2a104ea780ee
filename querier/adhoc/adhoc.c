#include "querier/adhoc/adhoc.h"

#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/model/flame.h"
#include "common/runtime/log.h"
#include "proto/adhoc_v1.pb-c.h"
#include "querier/adhoc/adhoc_store.h"
#include "querier/adhoc/flame.h"
#include "querier/api.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/params.h"
#include "querier/reply.h"

#define ROOT "/api/adhoc"
#define PATH "/api/adhoc/"
#define RAW  "/raw"

enum { FILE_REST_MAX_BYTES = 64 * 1024 }; /* of a message with a file: its name and the JSON */

uint64_t qry_adhoc_body_max_bytes(uint64_t file_max_bytes)
{
    return (file_max_bytes + 2) / 3 * 4 + FILE_REST_MAX_BYTES;
}

/* ---- one request ---- */

/* A request, and the files of its tenant. */
struct adhoc {
    struct qry_query *query;
    struct fg_limits *limits;
    struct qry_adhoc_store store;
    uint64_t held_bytes; /* of querier->adhoc_memory, for files that are in memory */
};

typedef enum fg_code (*adhoc_answer)(struct adhoc *adhoc, const ProtobufCMessage *in,
                                     struct fg_err *err);

static enum fg_code with_store(struct qry_query *query, const ProtobufCMessage *in,
                               adhoc_answer answer, struct fg_err *err)
{
    const struct querier *querier = query->querier;
    struct adhoc adhoc = {.query = query};
    enum fg_code code;

    /* An upload needs one owner, whose limits it counts in. */
    if (query->tenants.n != 1)
        return fg_fail(err, FG_E_INVALID,
                       "ad hoc profiles are those of one tenant, not of several");
    if (querier->adhoc_upload_max_bytes == 0)
        return fg_fail(err, FG_E_UNIMPLEMENTED,
                       "ad hoc profiles are turned off (querier.adhoc_upload_max_bytes)");
    /* Held until the answer is there: the store points into these limits. */
    adhoc.limits = fg_tenants_limits(querier->tenants, query->tenants.ids[0]);
    adhoc.store = (struct qry_adhoc_store){
        .bucket = querier->blocks == NULL ? NULL : querier->blocks->bucket,
        .tenant = query->tenants.ids[0],
        .limits = &adhoc.limits->values,
        .file_max_bytes = querier->adhoc_upload_max_bytes,
        .now_ms = fg_wall_ns(querier->clock) / FG_MS_NS,
        .deadline_mono_ns = query->deadline_mono_ns,
        .arena = query->arena,
    };
    code = answer(&adhoc, in, err);
    fg_budget_give(&query->querier->adhoc_memory, adhoc.held_bytes);
    fg_limits_unref(adhoc.limits);
    return code;
}

/* Counts a file that is about to be in memory. The end of the request gives back what still is. */
static enum fg_code hold(struct adhoc *adhoc, uint64_t bytes, struct fg_err *err)
{
    if (!fg_budget_take(&adhoc->query->querier->adhoc_memory, bytes))
        return fg_fail(err, FG_E_LIMIT,
                       "other ad hoc profiles are being read, try again "
                       "(querier.adhoc_memory_max_bytes)");
    adhoc->held_bytes += bytes;
    return FG_OK;
}

/* A file that was opened: what it is, and what of it is shown. */
struct adhoc_opened {
    struct qry_adhoc_entry entry;
    struct qry_adhoc_flame flame;
};

static enum fg_code make_flame(const struct adhoc *adhoc, struct fg_slice name,
                               struct fg_slice content, struct fg_slice type,
                               struct qry_adhoc_flame *flame, struct fg_err *err)
{
    struct querier *querier = adhoc->query->querier;

    /* Decoding is work like reading: a tenant that looks at many files waits for others in turn. */
    if (qry_query_charge(adhoc->query, content.len, err) != FG_OK)
        return err->code;
    return qry_adhoc_flame_make(
        &(struct qry_adhoc_file){.name = name,
                                 .content = content,
                                 .type = type,
                                 .limits = &adhoc->limits->values,
                                 .decode_max_bytes = querier->adhoc_decode_max_bytes,
                                 .memory = &querier->adhoc_memory,
                                 .now_ns = fg_wall_ns(querier->clock),
                                 .arena = adhoc->query->arena},
        flame, err);
}

/* Makes the error of a stored file that no longer decodes, because a limit was lowered or a decoder
 * became stricter. It is a server error: the client did nothing wrong. */
static enum fg_code stored_fault(const struct qry_adhoc_entry *entry, struct fg_err *err)
{
    (void)fg_wrap(err, "profile %s-%s was accepted when it was uploaded, and is refused now",
                  entry->name.id, entry->name.file);
    err->code = FG_E_INTERNAL;
    return err->code;
}

/* Reads a stored file. */
static enum fg_code open_file(struct adhoc *adhoc, struct fg_slice id, struct fg_slice type,
                              struct adhoc_opened *opened, struct fg_err *err)
{
    struct fg_buf content;
    enum fg_code code;
    uint64_t bytes;

    if (qry_adhoc_find(&adhoc->store, id, &opened->entry, err) != FG_OK)
        return err->code;
    bytes = FG_MIN(opened->entry.bytes, adhoc->store.file_max_bytes);
    if (hold(adhoc, bytes, err) != FG_OK)
        return err->code;
    code = qry_adhoc_read(&adhoc->store, &opened->entry, &content, err);
    if (code == FG_E_TOO_LARGE)
        return stored_fault(&opened->entry, err);
    if (code != FG_OK)
        return code;
    code = make_flame(adhoc, fg_cstr(opened->entry.name.file), fg_buf_slice(&content), type,
                      &opened->flame, err);
    fg_buf_done(&content);
    fg_budget_give(&adhoc->query->querier->adhoc_memory, bytes);
    adhoc->held_bytes -= bytes;
    if ((code == FG_E_INVALID && !opened->flame.is_decoded) || code == FG_E_DECODE ||
        code == FG_E_TOO_LARGE)
        return stored_fault(&opened->entry, err);
    return code;
}

/* Decodes a file before it is stored, so that nobody shares what cannot be shown. */
static enum fg_code upload(const struct adhoc *adhoc, struct fg_slice name, struct fg_slice content,
                           struct adhoc_opened *opened, struct fg_err *err)
{
    char file[FG_ADHOC_FILE_MAX_BYTES + 1];

    /* As the name is stored, so that the format found now is found again later. */
    fg_adhoc_file_write(name, file);
    if (content.len == 0)
        return fg_fail(err, FG_E_INVALID, "the file is empty");
    if (qry_adhoc_admit(&adhoc->store, content.len, err) != FG_OK ||
        make_flame(adhoc, fg_cstr(file), content, FG_LIT(""), &opened->flame, err) != FG_OK)
        return err->code;
    return qry_adhoc_add(&adhoc->store, name, content, &opened->entry, err);
}

static char *id_of(const struct adhoc *adhoc, const struct fg_adhoc_name *name)
{
    return fg_arena_printf(adhoc->query->arena, "%s-%s", name->id, name->file);
}

/* ---- adhocprofiles.v1 ---- */

/* Returns a string that may be missing. */
static struct fg_slice optional(const char *text)
{
    return text == NULL ? FG_LIT("") : fg_cstr(text);
}

static enum fg_code check_document(const struct adhoc *adhoc, struct fg_buf *document,
                                   struct fg_err *err)
{
    fg_buf_putc(document, '\0'); /* it becomes a string of a message */
    return document->full ? fg_fail(err, FG_E_LIMIT,
                                    "the response exceeds %llu bytes (querier.answer_max_bytes)",
                                    (unsigned long long)adhoc->query->querier->answer_max_bytes)
                          : FG_OK;
}

static char **call_types(const struct adhoc *adhoc, const struct qry_adhoc_flame *flame)
{
    char **called = fg_arena_new(adhoc->query->arena, char *, flame->n_types);

    for (size_t i = 0; called != NULL && i < flame->n_types; i++) {
        called[i] = qry_api_text(adhoc->query->arena, flame->types[i].called);
        if (called[i] == NULL)
            return NULL;
    }
    return called;
}

static enum fg_code reply_opened(const struct adhoc *adhoc, struct adhoc_opened *opened,
                                 int64_t asked_nodes, struct fg_err *err)
{
    const struct qry_adhoc_flame *flame = &opened->flame;
    struct qry_query *query = adhoc->query;
    Adhocprofiles__V1__GetResponse out;
    struct fg_json_writer json;
    struct fg_buf document;
    size_t max_nodes;
    enum fg_code code;

    if (qry_selection_max_nodes(asked_nodes, &max_nodes, err) != FG_OK)
        return err->code;
    adhocprofiles__v1__get_response__init(&out);
    out.id = id_of(adhoc, &opened->entry.name);
    out.name = opened->entry.name.file;
    out.uploaded_at = opened->entry.name.uploaded_ms;
    out.profile_types = call_types(adhoc, flame);
    if (out.id == NULL || out.profile_types == NULL)
        return qry_api_too_large(err);
    out.n_profile_types = flame->n_types;
    out.profile_type = out.profile_types[flame->chosen];
    fg_buf_init(&document, query->querier->answer_max_bytes);
    json = fg_json_writer(&document);
    fg_json_begin_object(&json, NULL);
    qry_adhoc_flame_write(flame, max_nodes, &json);
    fg_json_end(&json);
    code = check_document(adhoc, &document, err);
    if (code == FG_OK) {
        out.flamebearer_profile = (char *)document.ptr;
        code = qry_reply_message(query, &out.base, err);
    }
    fg_buf_done(&document);
    return code;
}

static enum fg_code connect_upload(struct adhoc *adhoc, const ProtobufCMessage *in,
                                   struct fg_err *err)
{
    const Adhocprofiles__V1__UploadRequest *asked = (const Adhocprofiles__V1__UploadRequest *)in;
    struct fg_slice text = fg_cstr(asked->profile);
    struct adhoc_opened opened = {0};
    struct fg_err ignored;
    uint8_t *content;
    enum fg_code code;
    size_t len, max_nodes;

    /* Before the file is stored. */
    if (qry_selection_max_nodes(asked->max_nodes, &max_nodes, err) != FG_OK)
        return err->code;
    /* Before memory for the file is asked for. */
    if (text.len / 4 * 3 > adhoc->store.file_max_bytes + 2)
        return qry_adhoc_admit(&adhoc->store, text.len / 4 * 3, err);
    /* A last group without padding has up to two bytes more than whole groups say. */
    if (hold(adhoc, text.len + text.len / 4 * 3, err) != FG_OK)
        return err->code;
    content = fg_arena_alloc(adhoc->query->arena, text.len / 4 * 3 + 5);
    if (content == NULL)
        return qry_api_too_large(err);
    if (!fg_parse_base64(text, content, &len))
        return fg_fail(err, FG_E_INVALID, "profile: no base64");
    code = upload(adhoc, fg_cstr(asked->name), fg_bytes(content, len), &opened, err);
    if (code == FG_OK) {
        code = reply_opened(adhoc, &opened, asked->max_nodes, err);
        /* The client does not learn the id, and may send the file again. */
        if (code != FG_OK && qry_adhoc_delete(&adhoc->store, &opened.entry, &ignored) != FG_OK)
            fg_log_warn("ad hoc profile whose upload failed is kept", fg_ls("err", ignored.msg));
    }
    qry_adhoc_flame_done(&opened.flame);
    return code;
}

static enum fg_code connect_get(struct adhoc *adhoc, const ProtobufCMessage *in, struct fg_err *err)
{
    const Adhocprofiles__V1__GetRequest *asked = (const Adhocprofiles__V1__GetRequest *)in;
    struct adhoc_opened opened = {0};
    enum fg_code code =
        open_file(adhoc, fg_cstr(asked->id), optional(asked->profile_type), &opened, err);

    if (code == FG_OK)
        code = reply_opened(adhoc, &opened, asked->max_nodes, err);
    qry_adhoc_flame_done(&opened.flame);
    return code;
}

static enum fg_code connect_list(struct adhoc *adhoc, const ProtobufCMessage *in,
                                 struct fg_err *err)
{
    Adhocprofiles__V1__ListResponse out;
    struct qry_adhoc_entry *entries;
    size_t n;

    (void)in;
    if (qry_adhoc_list(&adhoc->store, &entries, &n, err) != FG_OK)
        return err->code;
    adhocprofiles__v1__list_response__init(&out);
    out.profiles =
        qry_api_messages(adhoc->query->arena, &adhocprofiles__v1__metadata__descriptor, n);
    if (out.profiles == NULL)
        return qry_api_too_large(err);
    out.n_profiles = n;
    for (size_t i = 0; i < n; i++) {
        out.profiles[i]->id = id_of(adhoc, &entries[i].name);
        out.profiles[i]->name = entries[i].name.file;
        out.profiles[i]->uploaded_at = entries[i].name.uploaded_ms;
        if (out.profiles[i]->id == NULL)
            return qry_api_too_large(err);
    }
    return qry_reply_message(adhoc->query, &out.base, err);
}

/* The types that both files have: only these can be compared. */
static enum fg_code common_types(const struct adhoc *adhoc, const struct qry_adhoc_flame *left,
                                 const struct qry_adhoc_flame *right,
                                 Adhocprofiles__V1__DiffResponse *out, struct fg_err *err)
{
    char **called = call_types(adhoc, left);

    if (called == NULL)
        return qry_api_too_large(err);
    out->profile_types = called;
    for (size_t i = 0; i < left->n_types; i++)
        for (size_t k = 0; k < right->n_types; k++)
            /* In place: never more types are kept than were looked at. */
            if (fg_slice_eq(left->types[i].called, right->types[k].called)) {
                called[out->n_profile_types++] = called[i];
                break;
            }
    return FG_OK;
}

static enum fg_code reply_diff(const struct adhoc *adhoc, const struct qry_adhoc_flame *left,
                               const struct qry_adhoc_flame *right, size_t max_nodes,
                               struct fg_err *err)
{
    Adhocprofiles__V1__DiffResponse out;
    struct fg_json_writer json;
    struct fg_buf document;
    enum fg_code code;

    adhocprofiles__v1__diff_response__init(&out);
    if (common_types(adhoc, left, right, &out, err) != FG_OK)
        return err->code;
    fg_buf_init(&document, adhoc->query->querier->answer_max_bytes);
    json = fg_json_writer(&document);
    fg_json_begin_object(&json, NULL);
    code = qry_adhoc_flame_write_diff(left, right, max_nodes, &json, err);
    if (code == FG_OK) {
        fg_json_end(&json);
        code = check_document(adhoc, &document, err);
    }
    if (code == FG_OK) {
        out.flamebearer_profile = (char *)document.ptr;
        code = qry_reply_message(adhoc->query, &out.base, err);
    }
    fg_buf_done(&document);
    return code;
}

/* Finds the first type of the left file that the right one has, too. Copied, since it belongs to a
 * flame; empty: there is none. FG_E_LIMIT. */
static enum fg_code find_common(const struct adhoc *adhoc, const struct adhoc_opened sides[2],
                                struct fg_slice *ret_type, struct fg_err *err)
{
    const struct qry_adhoc_flame *left = &sides[0].flame, *right = &sides[1].flame;

    *ret_type = fg_bytes(NULL, 0);
    for (size_t i = 0; i < left->n_types; i++)
        for (size_t k = 0; k < right->n_types; k++)
            if (fg_slice_eq(left->types[i].called, right->types[k].called)) {
                *ret_type = fg_arena_copy(adhoc->query->arena, left->types[i].called);
                return ret_type->ptr == NULL ? qry_api_too_large(err) : FG_OK;
            }
    return FG_OK;
}

/* Opens both files again if those that were opened do not show the same type. A file with
 * one type, as those of formats without types, is compared with what the other shows, if the units
 * are the same. */
static enum fg_code agree_on_type(struct adhoc *adhoc, struct fg_slice left_id,
                                  struct fg_slice right_id, struct adhoc_opened sides[2],
                                  struct fg_err *err)
{
    const struct fg_slice ids[2] = {left_id, right_id};
    struct fg_slice type;

    if (find_common(adhoc, sides, &type, err) != FG_OK)
        return err->code;
    if (type.len == 0 && (sides[0].flame.n_types == 1 || sides[1].flame.n_types == 1))
        return FG_OK;
    if (type.len == 0)
        return fg_fail(err, FG_E_INVALID, "the files have no type in common");
    for (size_t i = 0; i < 2; i++) {
        const struct qry_adhoc_flame *flame = &sides[i].flame;

        if (fg_slice_eq(flame->types[flame->chosen].called, type))
            continue;
        qry_adhoc_flame_done(&sides[i].flame);
        sides[i] = (struct adhoc_opened){0};
        if (open_file(adhoc, ids[i], type, &sides[i], err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code connect_diff(struct adhoc *adhoc, const ProtobufCMessage *in,
                                 struct fg_err *err)
{
    const Adhocprofiles__V1__DiffRequest *asked = (const Adhocprofiles__V1__DiffRequest *)in;
    struct fg_slice type = optional(asked->profile_type);
    /* On the heap of the request: two of them are tens of kilobytes. */
    struct adhoc_opened *sides = fg_arena_new(adhoc->query->arena, struct adhoc_opened, 2);
    size_t max_nodes;
    enum fg_code code;

    if (sides == NULL)
        return qry_api_too_large(err);
    if (qry_selection_max_nodes(asked->max_nodes, &max_nodes, err) != FG_OK)
        return err->code;
    /* One after the other, so that memory for decoding is needed once. */
    code = open_file(adhoc, fg_cstr(asked->left_id), type, &sides[0], err);
    if (code == FG_OK)
        code = open_file(adhoc, fg_cstr(asked->right_id), type, &sides[1], err);
    if (code == FG_OK && type.len == 0)
        code = agree_on_type(adhoc, fg_cstr(asked->left_id), fg_cstr(asked->right_id), sides, err);
    if (code == FG_OK)
        code = reply_diff(adhoc, &sides[0].flame, &sides[1].flame, max_nodes, err);
    qry_adhoc_flame_done(&sides[0].flame);
    qry_adhoc_flame_done(&sides[1].flame);
    return code;
}

/* ---- plain routes ---- */

/* Ends a document that no query is behind, so that there are no statistics. */
static enum fg_code end_json(struct qry_query *query, struct fg_json_writer *json,
                             struct fg_err *err)
{
    fg_json_end(json);
    fg_buf_putc(&query->body, '\n');
    return query->body.full ? qry_api_too_large(err) : FG_OK;
}

/* Writes the members of a file. */
static enum fg_code put_entry(const struct adhoc *adhoc, const struct qry_adhoc_entry *entry,
                              struct fg_json_writer *json, struct fg_err *err)
{
    int64_t kept_ns = adhoc->limits->values.adhoc_retention_period_ns;
    const char *id = id_of(adhoc, &entry->name);

    if (id == NULL)
        return qry_api_too_large(err);
    fg_json_put_cstr(json, "id", id);
    fg_json_put_cstr(json, "name", entry->name.file);
    fg_json_put_u64(json, "bytes", entry->bytes);
    fg_json_put_i64(json, "uploaded", entry->name.uploaded_ms);
    if (kept_ns > 0)
        fg_json_put_i64(json, "expires", fg_time_add(entry->name.uploaded_ms, kept_ns / FG_MS_NS));
    return FG_OK;
}

/* Writes what is known of a file that was opened. */
static enum fg_code put_opened(const struct adhoc *adhoc, const struct adhoc_opened *opened,
                               struct fg_json_writer *json, struct fg_err *err)
{
    const struct qry_adhoc_flame *flame = &opened->flame;

    if (put_entry(adhoc, &opened->entry, json, err) != FG_OK)
        return err->code;
    fg_json_put_cstr(json, "format", fg_file_format_name(flame->format));
    fg_json_put_text(json, "type", flame->types[flame->chosen].called);
    fg_json_begin_array(json, "types");
    for (size_t i = 0; i < flame->n_types; i++)
        fg_json_put_text(json, NULL, flame->types[i].called);
    fg_json_end(json);
    return FG_OK;
}

static enum fg_code plain_upload(struct adhoc *adhoc, struct fg_err *err)
{
    struct qry_query *query = adhoc->query;
    struct fg_json_writer json = fg_json_writer(&query->body);
    struct adhoc_opened opened = {0};
    enum fg_code code = upload(adhoc, query->params.name, query->params.body, &opened, err);

    if (code == FG_OK) {
        fg_json_begin_object(&json, NULL);
        code = put_opened(adhoc, &opened, &json, err);
    }
    if (code == FG_OK)
        code = end_json(query, &json, err);
    qry_adhoc_flame_done(&opened.flame);
    return code;
}

static enum fg_code plain_list(struct adhoc *adhoc, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&adhoc->query->body);
    struct qry_adhoc_entry *entries;
    size_t n;

    if (qry_adhoc_list(&adhoc->store, &entries, &n, err) != FG_OK)
        return err->code;
    fg_json_begin_object(&json, NULL);
    fg_json_begin_array(&json, "profiles");
    for (size_t i = 0; i < n; i++) {
        fg_json_begin_object(&json, NULL);
        if (put_entry(adhoc, &entries[i], &json, err) != FG_OK)
            return err->code;
        fg_json_end(&json);
    }
    fg_json_end(&json);
    return end_json(adhoc->query, &json, err);
}

static enum fg_code plain_root(struct adhoc *adhoc, const ProtobufCMessage *in, struct fg_err *err)
{
    (void)in;
    return adhoc->query->params.method == FG_HTTP_POST ? plain_upload(adhoc, err)
                                                       : plain_list(adhoc, err);
}

/* The bytes as they came. What a browser would show of them is somebody else's, in our name: so it
 * is told to save them. */
static enum fg_code plain_raw(struct adhoc *adhoc, struct fg_slice id, struct fg_err *err)
{
    struct qry_query *query = adhoc->query;
    struct qry_adhoc_entry entry;
    struct fg_buf content;

    if (qry_adhoc_find(&adhoc->store, id, &entry, err) != FG_OK)
        return err->code;
    query->content_type = "application/octet-stream";
    query->exported = true;
    query->file_name = fg_arena_text(query->arena, fg_cstr(entry.name.file));
    if (query->file_name == NULL)
        return qry_api_too_large(err);
    if (qry_adhoc_read(&adhoc->store, &entry, &content, err) != FG_OK)
        return err->code;
    /* The content becomes the body without a copy. */
    fg_buf_done(&query->body);
    query->body = content;
    return FG_OK;
}

static enum fg_code plain_flame(struct adhoc *adhoc, struct fg_slice id, struct fg_err *err)
{
    struct qry_query *query = adhoc->query;
    struct fg_json_writer json = fg_json_writer(&query->body);
    struct adhoc_opened opened = {0};
    size_t max_nodes;
    enum fg_code code;

    if (qry_params_number(query->params.max_nodes, "max-nodes", FG_FLAME_NODES_DEFAULT, 1,
                          FG_FLAME_NODES_MAX, &max_nodes, err) != FG_OK)
        return err->code;
    code = open_file(adhoc, id, query->params.type, &opened, err);
    if (code == FG_OK) {
        fg_json_begin_object(&json, NULL);
        qry_adhoc_flame_write(&opened.flame, max_nodes, &json);
        fg_json_begin_object(&json, "file");
        code = put_opened(adhoc, &opened, &json, err);
    }
    if (code == FG_OK) {
        fg_json_end(&json);
        code = end_json(query, &json, err);
    }
    qry_adhoc_flame_done(&opened.flame);
    return code;
}

static enum fg_code plain_delete(struct adhoc *adhoc, struct fg_slice id, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&adhoc->query->body);
    struct qry_adhoc_entry entry;

    if (qry_adhoc_find(&adhoc->store, id, &entry, err) != FG_OK ||
        qry_adhoc_delete(&adhoc->store, &entry, err) != FG_OK)
        return err->code;
    fg_json_begin_object(&json, NULL);
    if (put_entry(adhoc, &entry, &json, err) != FG_OK)
        return err->code;
    return end_json(adhoc->query, &json, err);
}

static enum fg_code plain_one(struct adhoc *adhoc, const ProtobufCMessage *in, struct fg_err *err)
{
    const struct qry_render_params *params = &adhoc->query->params;
    struct fg_slice id = fg_slice_sub(params->path, strlen(PATH), SIZE_MAX);

    (void)in;
    if (params->method == FG_HTTP_DELETE)
        return plain_delete(adhoc, id, err);
    /* No id ends so: fg_adhoc_file_write() leaves no '/' in names. */
    if (fg_slice_ends(id, RAW))
        return plain_raw(adhoc, fg_slice_sub(id, 0, id.len - strlen(RAW)), err);
    return plain_flame(adhoc, id, err);
}

/* ---- routes ---- */

#define ENDPOINT(name)                                                                             \
    static enum fg_code answer_##name(struct qry_query *query, const ProtobufCMessage *in,         \
                                      struct fg_err *err)                                          \
    {                                                                                              \
        return with_store(query, in, name, err);                                                   \
    }
ENDPOINT(connect_upload)
ENDPOINT(connect_get)
ENDPOINT(connect_list)
ENDPOINT(connect_diff)
ENDPOINT(plain_root)
ENDPOINT(plain_one)

#define METHOD(name) "/adhocprofiles.v1.AdHocProfileService/" name, "AdHoc" name

/* clang-format off */
const struct qry_adhoc_endpoint qry_adhoc_endpoints[] = {
    {{METHOD("Upload"), &adhocprofiles__v1__upload_request__descriptor, answer_connect_upload, 0, true}, QRY_ADHOC_UPLOADS},
    {{METHOD("Get"), &adhocprofiles__v1__get_request__descriptor, answer_connect_get, 0, true}, QRY_ADHOC_READS},
    {{METHOD("List"), &adhocprofiles__v1__list_request__descriptor, answer_connect_list, 0, true}, QRY_ADHOC_READS},
    {{METHOD("Diff"), &adhocprofiles__v1__diff_request__descriptor, answer_connect_diff, 0, true}, QRY_ADHOC_READS},
    {{ROOT, "adhoc", NULL, answer_plain_root, 0, true}, QRY_ADHOC_UPLOADS},
    {{PATH, "adhoc_one", NULL, answer_plain_one, 0, true}, QRY_ADHOC_DELETES},
};
/* clang-format on */
const size_t qry_n_adhoc_endpoints = FG_COUNT(qry_adhoc_endpoints);
