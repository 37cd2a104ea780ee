#include "querier/audited.h"

#include "common/access/access.h"

enum { TENANTS_MAX_BYTES = FG_AUDIT_TEXT_MAX_BYTES };

/* Members that say what a message selects, wherever they are in it. */
static const char *const selectors[] = {"label_selector",  "matchers", "profile_typeid",
                                        "profile_type_id", "name",     "id"};

/* ---- what it asks for ---- */

static void put_selector(struct fg_buf *out, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return;
    if (out->len > 0)
        fg_buf_putc(out, ' ');
    fg_buf_puts(out, text);
}

static bool is_selector(const char *name)
{
    for (size_t i = 0; i < FG_COUNT(selectors); i++)
        if (strcasecmp(name, selectors[i]) == 0)
            return true;
    return false;
}

static void read_field(struct qry_query *query, const ProtobufCMessage *in,
                       const ProtobufCFieldDescriptor *field, struct fg_buf *out)
{
    const char *at = (const char *)in + field->offset;
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;

    if (field->type == PROTOBUF_C_TYPE_STRING && is_selector(field->name)) {
        size_t n = repeated ? *(const size_t *)((const char *)in + field->quantifier_offset) : 1;
        char *const *texts = repeated ? *(char *const *const *)at : (char *const *)at;

        for (size_t i = 0; i < n; i++)
            put_selector(out, texts[i]);
    } else if (field->type == PROTOBUF_C_TYPE_INT64 && !repeated) {
        if (strcmp(field->name, "start") == 0)
            query->audited.from_ms = *(const int64_t *)at;
        else if (strcmp(field->name, "end") == 0)
            query->audited.to_ms = *(const int64_t *)at;
    } else if (field->type == PROTOBUF_C_TYPE_MESSAGE && !repeated &&
               (strcmp(field->name, "left") == 0 || strcmp(field->name, "right") == 0)) {
        const ProtobufCMessage *side = *(const ProtobufCMessage *const *)at;

        /* The two sides of a comparison, which have no sides themselves. */
        for (unsigned i = 0; side != NULL && i < side->descriptor->n_fields; i++)
            if (side->descriptor->fields[i].type != PROTOBUF_C_TYPE_MESSAGE)
                read_field(query, side, &side->descriptor->fields[i], out);
    }
}

void qry_audited_asks(struct qry_query *query, const ProtobufCMessage *in)
{
    struct fg_buf out;

    if (query->querier->audit == NULL)
        return;
    fg_buf_init(&out, query->querier->answer_max_bytes);
    if (in == NULL)
        fg_buf_put(&out, fg_http_query(query->req));
    else
        for (unsigned i = 0; i < in->descriptor->n_fields; i++)
            read_field(query, in, &in->descriptor->fields[i], &out);
    query->audited.detail = fg_arena_copy(
        query->arena, fg_slice_sub(fg_buf_slice(&out), 0, FG_AUDIT_TEXT_MAX_BYTES + 1));
    fg_buf_done(&out);
}

/* ---- records ---- */

static struct fg_audit_event event_of(const struct qry_query *query, enum fg_audit_kind kind,
                                      struct fg_access_who *who, char tenants[TENANTS_MAX_BYTES])
{
    struct fg_audit_event event = fg_access_audit_event(query->req, kind, who);
    size_t len = 0;

    event.op = query->audited.op;
    tenants[0] = '\0';
    for (size_t i = 0; i < query->tenants.n && len < TENANTS_MAX_BYTES; i++)
        len += (size_t)snprintf(tenants + len, TENANTS_MAX_BYTES - len, "%s%.*s", i == 0 ? "" : "|",
                                FG_S(query->tenants.ids[i]));
    event.tenant = fg_cstr(tenants);
    event.detail = query->audited.detail;
    event.from_ms = query->audited.from_ms;
    event.to_ms = query->audited.to_ms;
    return event;
}

enum fg_code qry_audited_begin(struct qry_query *query, struct fg_err *err)
{
    struct fg_access_who who;
    char tenants[TENANTS_MAX_BYTES];
    struct fg_audit_event event;

    if (query->audited.kind == FG_AUDIT_READ)
        return FG_OK;
    event = event_of(query, query->audited.kind, &who, tenants);
    if (fg_audit_begin(query->querier->audit, &event, err) != FG_OK)
        return err->code;
    query->audited.op = event.op;
    return FG_OK;
}

void qry_audited_end(struct qry_query *query)
{
    struct fg_audit *audit = query->querier->audit;
    struct fg_access_who who;
    char tenants[TENANTS_MAX_BYTES];
    struct fg_audit_event event;

    if (audit == NULL || query->scraped)
        return;
    event = event_of(query, query->audited.kind, &who, tenants);
    if (event.kind != FG_AUDIT_READ) {
        if (event.op != 0) /* else it has not begun */
            fg_audit_result(audit, &event, query->job.code, &query->job.err);
        return;
    }
    if (query->exported && query->job.code == FG_OK)
        event.kind = FG_AUDIT_EXPORT;
    event.bytes = query->bytes;
    event.status = fg_code_http(query->job.code);
    fg_audit_read_query(audit, &event);
}
