#include "common/access/audit/audit_record.h"

#include "common/base/json.h"
#include "common/base/json_writer.h"
#include "common/base/str.h"

#include <openssl/evp.h>
#include <time.h>

enum {
    READ_ARENA_BYTES = 256 * 1024, /* of one line */
    SENTENCE_MAX_BYTES = 400,
    OBJECT_DIGITS = 6,
    DAY_CHARS = 10, /* 2026/11/26 */
};

#define HOUR_MS     (FG_HOUR_NS / FG_MS_NS)
#define TIME_MAX_MS INT64_C(253402300799999) /* of the year 9999 */

static const char *const kinds[FG_AUDIT_KINDS] = {
    "object", "end",   "admin", "change",  "delete",    "share", "export",
    "read",   "reads", "login", "refused", "retention", "lost",
};
static const char *const phases[FG_AUDIT_PHASES] = {"", "begin", "result"};

const char *fg_audit_kind_name(enum fg_audit_kind kind)
{
    return kinds[kind];
}

static void hash_of(struct fg_slice line, uint8_t out[FG_AUDIT_HASH_BYTES])
{
    fg_assert(EVP_Digest(line.ptr, line.len, out, NULL, EVP_sha256(), NULL) == 1);
}

/* ---- writing records ---- */

/* Cuts a text before the character that would exceed the limit. */
static struct fg_slice cut(struct fg_slice text)
{
    size_t len = FG_MIN(text.len, (size_t)FG_AUDIT_TEXT_MAX_BYTES);

    while (len > 0 && len < text.len && (text.ptr[len] & 0xc0) == 0x80)
        len--;
    return fg_slice_sub(text, 0, len);
}

static void put_text(struct fg_json_writer *json, const char *key, struct fg_slice text)
{
    if (text.len > 0)
        fg_json_put_text(json, key, cut(text));
}

static void put_u64(struct fg_json_writer *json, const char *key, uint64_t value)
{
    if (value != 0)
        fg_json_put_u64(json, key, value);
}

static void put_ms(struct fg_json_writer *json, const char *key, int64_t ms)
{
    if (ms != 0)
        fg_json_put_i64(json, key, ms);
}

static void put_hash(struct fg_json_writer *json, const char *key,
                     const uint8_t hash[FG_AUDIT_HASH_BYTES])
{
    struct fg_buf *out = fg_json_value(json, key);

    fg_buf_putc(out, '"');
    fg_buf_hex(out, hash, FG_AUDIT_HASH_BYTES);
    fg_buf_putc(out, '"');
}

static void put_event(struct fg_json_writer *json, const struct fg_audit_event *event)
{
    fg_json_put_cstr(json, "kind", kinds[event->kind]);
    put_u64(json, "op", event->op);
    put_text(json, "phase", fg_cstr(phases[event->phase]));
    put_text(json, "who", event->who);
    put_text(json, "token", event->token);
    put_text(json, "session", event->session);
    put_text(json, "issuer", event->issuer);
    put_text(json, "tenant", event->tenant);
    put_text(json, "method", event->method);
    put_text(json, "route", event->route);
    put_text(json, "detail", event->detail);
    put_ms(json, "fromMs", event->from_ms);
    put_ms(json, "toMs", event->to_ms);
    put_u64(json, "count", event->count);
    put_u64(json, "bytes", event->bytes);
    put_u64(json, "status", event->status);
    put_text(json, "source", event->source);
}

void fg_audit_write_event(const struct fg_audit_event *event, struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);

    fg_json_begin_object(&json, NULL);
    put_event(&json, event);
    fg_json_end(&json);
}

/* ---- reading records ---- */

/* Where a member goes. */
struct member {
    const char *key;
    /* Names and hours are made of a TIME, so its year has four digits. MS is only shown. */
    enum { TEXT, NUMBER, MS, TIME, HASH, KIND, PHASE, LINK } form;
    size_t at;
};

#define AT(member)      offsetof(struct fg_audit_record, member)
#define LINK_AT(member) offsetof(struct fg_audit_link, member)

static const struct member record_members[] = {
    {"seq", NUMBER, AT(seq)},
    {"prev", HASH, AT(prev)},
    {"ms", TIME, AT(ms)},
    {"kind", KIND, AT(event.kind)},
    {"op", NUMBER, AT(event.op)},
    {"phase", PHASE, AT(event.phase)},
    {"who", TEXT, AT(event.who)},
    {"token", TEXT, AT(event.token)},
    {"session", TEXT, AT(event.session)},
    {"issuer", TEXT, AT(event.issuer)},
    {"tenant", TEXT, AT(event.tenant)},
    {"method", TEXT, AT(event.method)},
    {"route", TEXT, AT(event.route)},
    {"detail", TEXT, AT(event.detail)},
    {"fromMs", MS, AT(event.from_ms)},
    {"toMs", MS, AT(event.to_ms)},
    {"count", NUMBER, AT(event.count)},
    {"bytes", NUMBER, AT(event.bytes)},
    {"source", TEXT, AT(event.source)},
    {"chain", TEXT, AT(chain)},
    {"object", NUMBER, AT(object)},
    {"program", TEXT, AT(program)},
    {"host", TEXT, AT(host)},
    {"beforeMs", TIME, AT(before_ms)},
    {"continues", LINK, AT(continues)},
};
static const struct member link_members[] = {
    {"chain", TEXT, 0}, /* read_link() copies it */
    {"seq", NUMBER, LINK_AT(seq)},
    {"hash", HASH, LINK_AT(hash)},
    {"objectMs", TIME, LINK_AT(object_ms)},
};

static bool find_word(struct fg_slice text, const char *const *words, size_t n, unsigned *ret_which)
{
    for (size_t i = 0; i < n; i++)
        if (fg_slice_is(text, words[i])) {
            *ret_which = (unsigned)i;
            return true;
        }
    return false;
}

/* Reads a value that is not an object. Returns false if it is not of the form. */
static bool read_value(struct fg_json *json, enum fg_json_token token, const struct member *member,
                       struct fg_arena *arena, void *to)
{
    struct fg_slice text = {NULL, 0};
    unsigned which;

    if (member->form == NUMBER)
        return token == FG_JSON_NUMBER && fg_json_u64(json, to);
    if (member->form == MS || member->form == TIME)
        return token == FG_JSON_NUMBER && fg_json_i64(json, to) &&
               (member->form == MS || (*(int64_t *)to >= 0 && *(int64_t *)to <= TIME_MAX_MS));
    if (token != FG_JSON_STRING)
        return false;
    text = fg_json_text(json, arena);
    switch (member->form) {
    case TEXT:
        *(struct fg_slice *)to = text;
        return text.ptr != NULL;
    case HASH:
        return fg_parse_hex(text, to, FG_AUDIT_HASH_BYTES);
    case KIND:
        if (!find_word(text, kinds, FG_AUDIT_KINDS, &which))
            return false;
        *(enum fg_audit_kind *)to = (enum fg_audit_kind)which;
        return true;
    case PHASE:
        if (!find_word(text, phases, FG_AUDIT_PHASES, &which))
            return false;
        *(enum fg_audit_phase *)to = (enum fg_audit_phase)which;
        return true;
    default:
        return false;
    }
}

static const struct member *find_member(const struct member *members, size_t n, struct fg_slice key)
{
    for (size_t i = 0; i < n; i++)
        if (fg_slice_is(key, members[i].key))
            return &members[i];
    return NULL;
}

static enum fg_code read_link(struct fg_json *json, struct fg_arena *arena,
                              struct fg_audit_link *link, struct fg_err *err)
{
    enum fg_json_token token;
    struct fg_slice chain = FG_LIT("");

    while ((token = fg_json_next(json)) == FG_JSON_KEY) {
        const struct member *member =
            find_member(link_members, FG_COUNT(link_members), fg_json_text(json, arena));

        token = fg_json_next(json);
        if (member == NULL)
            fg_json_skip(json, token);
        else if (!read_value(json, token, member, arena,
                             member->form == TEXT ? (void *)&chain : (char *)link + member->at))
            return fg_json_fail(json, "not a link to another chain", err);
    }
    if (token != FG_JSON_OBJECT_END || chain.len == 0 || chain.len > FG_AUDIT_CHAIN_MAX_BYTES)
        return fg_json_fail(json, "not a link to another chain", err);
    (void)snprintf(link->chain, sizeof link->chain, "%.*s", FG_S(chain));
    return FG_OK;
}

static enum fg_code read_member(struct fg_json *json, struct fg_arena *arena,
                                struct fg_audit_record *record, struct fg_err *err)
{
    struct fg_slice key = fg_json_text(json, arena);
    const struct member *member = find_member(record_members, FG_COUNT(record_members), key);
    uint64_t status;

    enum fg_json_token token = fg_json_next(json);
    /* Not in the table, whose numbers have 64 bits: the status is an unsigned. */
    if (fg_slice_is(key, "status")) {
        if (token != FG_JSON_NUMBER || !fg_json_u64(json, &status) || status > UINT16_MAX)
            return fg_json_fail(json, "not a status", err);
        record->event.status = (unsigned)status;
        return FG_OK;
    }
    if (member == NULL) {
        fg_json_skip(json, token);
        return FG_OK;
    }
    if (member->form == LINK)
        return token == FG_JSON_OBJECT ? read_link(json, arena, &record->continues, err)
                                       : fg_json_fail(json, "not a link to another chain", err);
    if (!read_value(json, token, member, arena, (char *)record + member->at))
        return fg_json_fail(json, "a member of another form", err);
    return FG_OK;
}

enum fg_code fg_audit_read(struct fg_slice line, struct fg_arena *arena,
                           struct fg_audit_record *ret_record, struct fg_err *err)
{
    struct fg_audit_record record = {.event.kind = FG_AUDIT_KINDS};
    struct fg_json json = fg_json(line);
    enum fg_json_token token;

    if (fg_json_next(&json) != FG_JSON_OBJECT)
        return fg_json_fail(&json, "a record is an object", err);
    while ((token = fg_json_next(&json)) == FG_JSON_KEY)
        if (read_member(&json, arena, &record, err) != FG_OK)
            return err->code;
    if (token != FG_JSON_OBJECT_END || fg_json_next(&json) != FG_JSON_END)
        return fg_json_fail(&json, "a record is one object", err);
    if (record.event.kind == FG_AUDIT_KINDS)
        return fg_fail(err, FG_E_DECODE, "the record has no kind");
    *ret_record = record;
    return FG_OK;
}

/* ---- names ---- */

int64_t fg_audit_hour_ms(int64_t ms)
{
    return ms - ms % HOUR_MS;
}

/* Writes the folder of an hour, or of its day. */
static void write_folder(int64_t ms, bool day, char out[FG_AUDIT_NAME_MAX_BYTES])
{
    time_t seconds = (time_t)(fg_audit_hour_ms(ms) / (FG_SECOND_NS / FG_MS_NS));
    struct tm utc;
    int len;

    fg_assert(gmtime_r(&seconds, &utc) != NULL);
    len = snprintf(out, FG_AUDIT_NAME_MAX_BYTES, FG_AUDIT_PREFIX "%04d/%02d/%02d/",
                   utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
    if (!day)
        (void)snprintf(out + len, FG_AUDIT_NAME_MAX_BYTES - (size_t)len, "%02d/", utc.tm_hour);
}

void fg_audit_write_day(int64_t ms, char out[FG_AUDIT_NAME_MAX_BYTES])
{
    write_folder(ms, true, out);
}

void fg_audit_write_name(const char *chain, uint64_t object, int64_t ms,
                         char out[FG_AUDIT_NAME_MAX_BYTES])
{
    size_t len;

    write_folder(ms, false, out);
    len = strlen(out);
    (void)snprintf(out + len, FG_AUDIT_NAME_MAX_BYTES - len, "%s-%0*llu" FG_AUDIT_SUFFIX, chain,
                   OBJECT_DIGITS, (unsigned long long)object);
}

/* Reads "2026/11/26/22". Parts out of range give another hour, which the caller sees. */
static bool read_hour(struct fg_slice text, int64_t *ret_ms)
{
    struct tm utc = {0};
    uint64_t parts[4];

    for (size_t i = 0; i < FG_COUNT(parts); i++) {
        size_t end = FG_MIN(fg_slice_find(text, '/'), text.len);

        if (!fg_parse_u64(fg_slice_sub(text, 0, end), &parts[i]) || parts[i] > 9999)
            return false;
        text = fg_slice_sub(text, end + 1, SIZE_MAX);
    }
    utc.tm_year = (int)parts[0] - 1900;
    utc.tm_mon = (int)parts[1] - 1;
    utc.tm_mday = (int)parts[2];
    utc.tm_hour = (int)parts[3];
    *ret_ms = (int64_t)timegm(&utc) * (FG_SECOND_NS / FG_MS_NS);
    return true;
}

/* Splits "<chain>-<n>". */
static bool read_object(struct fg_slice text, struct fg_audit_name *name)
{
    size_t dash = text.len;

    while (dash > 0 && text.ptr[dash - 1] != '-')
        dash--;
    if (dash < 2 || dash - 1 > FG_AUDIT_CHAIN_MAX_BYTES || text.len - dash < OBJECT_DIGITS ||
        !fg_parse_u64(fg_slice_sub(text, dash, SIZE_MAX), &name->object))
        return false;
    (void)snprintf(name->chain, sizeof name->chain, "%.*s", (int)(dash - 1),
                   (const char *)text.ptr);
    return true;
}

bool fg_audit_read_name(struct fg_slice text, struct fg_audit_name *ret_name)
{
    const size_t hour_at = strlen(FG_AUDIT_PREFIX), hour_len = DAY_CHARS + strlen("/22");
    struct fg_audit_name name = {.object = 0};
    char again[FG_AUDIT_NAME_MAX_BYTES];

    if (!fg_slice_starts(text, FG_AUDIT_PREFIX) || !fg_slice_ends(text, FG_AUDIT_SUFFIX) ||
        text.len >= FG_AUDIT_NAME_MAX_BYTES || text.len < hour_at + hour_len + 1)
        return false;
    if (!read_hour(fg_slice_sub(text, hour_at, hour_len), &name.hour_ms) ||
        !read_object(fg_slice_sub(text, hour_at + hour_len + 1,
                                  text.len - hour_at - hour_len - 1 - strlen(FG_AUDIT_SUFFIX)),
                     &name))
        return false;
    /* One name for each object: whatever we would write otherwise is somebody else's. */
    fg_audit_write_name(name.chain, name.object, name.hour_ms, again);
    if (!fg_slice_is(text, again))
        return false;
    *ret_name = name;
    return true;
}

/* ---- chains ---- */

struct fg_audit_writer fg_audit_writer(const char *program, uint64_t random, const char *host)
{
    struct fg_audit_writer writer = {.program = program, .host = host};
    const char *service = strrchr(program, '-');
    char *chain = writer.head.chain;

    /* 40 characters, and 17 more, are less than FG_AUDIT_CHAIN_MAX_BYTES. */
    (void)snprintf(chain, sizeof writer.head.chain, "%.40s-%016llx",
                   service == NULL ? program : service + 1, (unsigned long long)random);
    /* A part of a name in the bucket. */
    for (; *chain != '\0'; chain++)
        if (*chain == '/' || *chain == ' ')
            *chain = '_';
    return writer;
}

static void end_line(struct fg_audit_writer *writer, size_t start, struct fg_buf *out)
{
    hash_of(fg_slice_sub(fg_buf_slice(out), start, SIZE_MAX), writer->head.hash);
    writer->head.seq = writer->next_seq++;
    fg_buf_putc(out, '\n');
}

static void begin_object(struct fg_audit_writer *writer, int64_t ms, struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);
    size_t start = out->len;

    writer->head.object_ms = ms;
    fg_json_begin_object(&json, NULL);
    fg_json_put_u64(&json, "seq", writer->next_seq);
    put_hash(&json, "prev", writer->head.hash);
    fg_json_put_i64(&json, "ms", ms);
    fg_json_put_cstr(&json, "kind", kinds[FG_AUDIT_OBJECT]);
    fg_json_put_cstr(&json, "chain", writer->head.chain);
    fg_json_put_u64(&json, "object", writer->object);
    put_text(&json, "program", fg_cstr(writer->program));
    put_text(&json, "host", fg_cstr(writer->host));
    put_ms(&json, "beforeMs", writer->before_ms);
    if (writer->object == 0 && writer->continues.chain[0] != '\0') {
        fg_json_begin_object(&json, "continues");
        fg_json_put_cstr(&json, "chain", writer->continues.chain);
        fg_json_put_u64(&json, "seq", writer->continues.seq);
        put_hash(&json, "hash", writer->continues.hash);
        fg_json_put_i64(&json, "objectMs", writer->continues.object_ms);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    end_line(writer, start, out);
    writer->open = true;
}

void fg_audit_append(struct fg_audit_writer *writer, int64_t ms, struct fg_slice event,
                     struct fg_buf *out)
{
    size_t start;

    /* The clock may have been set back, but a chain has one order. */
    writer->last_ms = FG_MAX(writer->last_ms, ms);
    if (!writer->open)
        begin_object(writer, writer->last_ms, out);
    start = out->len;
    fg_buf_puts(out, "{\"seq\":");
    fg_buf_u64(out, writer->next_seq);
    fg_buf_puts(out, ",\"prev\":\"");
    fg_buf_hex(out, writer->head.hash, FG_AUDIT_HASH_BYTES);
    fg_buf_puts(out, "\",\"ms\":");
    fg_buf_i64(out, writer->last_ms);
    fg_buf_putc(out, ',');
    fg_buf_put(out, fg_slice_sub(event, 1, SIZE_MAX)); /* behind its '{' */
    end_line(writer, start, out);
}

void fg_audit_next_object(struct fg_audit_writer *writer)
{
    if (!writer->open)
        return;
    writer->open = false;
    writer->object++;
    writer->before_ms = writer->head.object_ms;
}

/* Returns the first line and what follows it. Returns false if there is none that is whole. */
static bool next_line(struct fg_slice *rest, struct fg_slice *ret_line)
{
    size_t end = fg_slice_find(*rest, '\n');

    if (end == SIZE_MAX)
        return false;
    *ret_line = fg_slice_sub(*rest, 0, end);
    *rest = fg_slice_sub(*rest, end + 1, SIZE_MAX);
    return true;
}

size_t fg_audit_whole(struct fg_slice lines, struct fg_audit_link *ret_link, uint64_t *ret_object)
{
    fg_auto(fg_arena) *arena = fg_arena_create(READ_ARENA_BYTES);
    struct fg_slice rest = lines, line = {NULL, 0}, last = {NULL, 0};
    struct fg_audit_record record = {.seq = 0};
    struct fg_audit_link link = {.seq = 0};
    struct fg_err err;

    if (!next_line(&rest, &line) || fg_audit_read(line, arena, &record, &err) != FG_OK ||
        record.event.kind != FG_AUDIT_OBJECT || record.chain.len == 0 ||
        record.chain.len > FG_AUDIT_CHAIN_MAX_BYTES)
        return 0;
    (void)snprintf(link.chain, sizeof link.chain, "%.*s", FG_S(record.chain));
    link.object_ms = record.ms;
    *ret_object = record.object;
    do
        last = line;
    while (next_line(&rest, &line));
    fg_arena_reset(arena);
    /* A last line that is no record stays: verifying says so. */
    if (fg_audit_read(last, arena, &record, &err) == FG_OK)
        link.seq = record.seq;
    hash_of(last, link.hash);
    *ret_link = link;
    return lines.len - rest.len;
}

/* ---- verifying ---- */

/* The object that is being looked at. */
struct audit_checking {
    struct fg_audit_chain *chain;
    const struct fg_audit_name *name;
    fg_audit_on_fault on_fault;
    void *arg;
    uint64_t line;
};

static void fault(struct audit_checking *checking, const char *format, ...) fg_printf(2, 3);

static void fault(struct audit_checking *checking, const char *format, ...)
{
    char sentence[SENTENCE_MAX_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    checking->chain->faults++;
    checking->on_fault(checking->arg, checking->chain->head.chain, sentence);
}

/* Compares a record with what has to come next. */
static void check_place(struct audit_checking *checking, const struct fg_audit_record *record)
{
    const struct fg_audit_chain *chain = checking->chain;
    unsigned long long object = checking->name->object, seq = record->seq;

    if (seq != chain->next_seq)
        fault(checking, "object %llu, line %llu: record %llu follows record %llu: %s", object,
              (unsigned long long)checking->line, seq, (unsigned long long)chain->next_seq - 1,
              seq > chain->next_seq ? "records in between are missing" : "records were reordered");
    else if (memcmp(record->prev, chain->head.hash, FG_AUDIT_HASH_BYTES) != 0)
        fault(checking,
              "object %llu, line %llu: record %llu does not continue the one before it: "
              "record %llu was changed",
              object, (unsigned long long)checking->line, seq, seq == 0 ? 0 : seq - 1);
    if (record->ms < chain->last_ms)
        fault(checking, "object %llu, line %llu: record %llu is earlier than the one before it",
              object, (unsigned long long)checking->line, seq);
}

static void check_first(struct audit_checking *checking, const struct fg_audit_record *record)
{
    struct fg_audit_chain *chain = checking->chain;
    const struct fg_audit_name *name = checking->name;

    if (record->event.kind != FG_AUDIT_OBJECT || !fg_slice_is(record->chain, name->chain) ||
        record->object != name->object || fg_audit_hour_ms(record->ms) != name->hour_ms)
        fault(checking, "object %llu: its first record does not say that it is this object",
              (unsigned long long)name->object);
    if (!chain->begun) {
        /* Where it begins is checked with what all chains say (fg_audit_check_links()). */
        chain->begun = true;
        chain->first_object = name->object;
        chain->begin_ms = record->ms;
        chain->before_ms = record->before_ms;
        chain->continues = record->continues;
        chain->next_seq = name->object == 0 ? 0 : record->seq;
        if (name->object != 0)
            memcpy(chain->head.hash, record->prev, FG_AUDIT_HASH_BYTES);
    }
    chain->head.object_ms = record->ms;
    check_place(checking, record);
}

/* Compares the head with a record that somebody has seen earlier. */
static void check_known(struct audit_checking *checking)
{
    struct fg_audit_chain *chain = checking->chain;

    if (chain->known.chain[0] == '\0' || chain->head.seq != chain->known.seq)
        return;
    chain->known_seen = true;
    if (memcmp(chain->head.hash, chain->known.hash, FG_AUDIT_HASH_BYTES) != 0)
        fault(checking,
              "record %llu is not the one that was known: it or earlier ones were changed",
              (unsigned long long)chain->known.seq);
}

static void check_line(struct audit_checking *checking, struct fg_slice line,
                       struct fg_arena *arena)
{
    struct fg_audit_chain *chain = checking->chain;
    struct fg_audit_record record = {.seq = 0};
    struct fg_err err;

    checking->line++;
    fg_arena_reset(arena);
    if (fg_audit_read(line, arena, &record, &err) != FG_OK) {
        fault(checking, "object %llu, line %llu is not a record: %.200s",
              (unsigned long long)checking->name->object, (unsigned long long)checking->line,
              err.msg);
        /* It counts as the record that belongs here, so that the numbers behind it still fit. */
        record = (struct fg_audit_record){.seq = chain->next_seq, .ms = chain->last_ms};
    } else if (checking->line == 1) {
        check_first(checking, &record);
    } else {
        check_place(checking, &record);
    }
    if (chain->ended)
        fault(checking, "object %llu, line %llu: a record follows the end of the process",
              (unsigned long long)checking->name->object, (unsigned long long)checking->line);
    chain->ended = record.event.kind == FG_AUDIT_END;
    if (record.event.kind == FG_AUDIT_RETENTION)
        chain->horizon_ms = FG_MAX(chain->horizon_ms, record.event.to_ms);
    chain->records++;
    chain->head.seq = record.seq;
    chain->next_seq = record.seq + 1;
    chain->last_ms = FG_MAX(chain->last_ms, record.ms);
    hash_of(line, chain->head.hash);
    check_known(checking);
}

static void note_name(struct audit_checking *checking)
{
    struct fg_audit_chain *chain = checking->chain;
    const struct fg_audit_name *name = checking->name;

    (void)snprintf(chain->head.chain, sizeof chain->head.chain, "%s", name->chain);
    if (!chain->begun || name->object == chain->next_object)
        return;
    if (name->object == chain->next_object + 1)
        fault(checking, "object %llu is missing", (unsigned long long)chain->next_object);
    else
        fault(checking, "objects %llu to %llu are missing", (unsigned long long)chain->next_object,
              (unsigned long long)name->object - 1);
}

void fg_audit_check_object(struct fg_audit_chain *chain, const struct fg_audit_name *name,
                           struct fg_slice lines, fg_audit_on_fault on_fault, void *arg)
{
    fg_auto(fg_arena) *arena = fg_arena_create(READ_ARENA_BYTES);
    struct audit_checking checking = {chain, name, on_fault, arg, 0};
    struct fg_slice rest = lines, line;

    note_name(&checking);
    while (next_line(&rest, &line))
        check_line(&checking, line, arena);
    if (rest.len > 0 || checking.line == 0)
        fault(&checking, "object %llu is cut short", (unsigned long long)name->object);
    chain->next_object = name->object + 1;
}

void fg_audit_check_unreadable(struct fg_audit_chain *chain, const struct fg_audit_name *name,
                               const char *why, fg_audit_on_fault on_fault, void *arg)
{
    struct audit_checking checking = {chain, name, on_fault, arg, 0};

    note_name(&checking);
    fault(&checking, "object %llu cannot be read: %.200s", (unsigned long long)name->object, why);
    chain->next_object = name->object + 1;
}

/* Retention deletes whole hours. */
static bool is_expired(int64_t object_ms, int64_t horizon_ms)
{
    return fg_audit_hour_ms(object_ms) + HOUR_MS <= horizon_ms;
}

static const struct fg_audit_chain *find_chain(const struct fg_audit_chain *chains, size_t n,
                                               const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(chains[i].head.chain, id) == 0)
            return &chains[i];
    return NULL;
}

/* Compares the end of a chain with what the next process on the same data folder found. */
static void check_continued(struct audit_checking *checking, const struct fg_audit_chain *chains,
                            size_t n, int64_t horizon_ms)
{
    const struct fg_audit_link *link = &checking->chain->continues;
    const struct fg_audit_chain *other = find_chain(chains, n, link->chain);

    if (link->chain[0] == '\0')
        return;
    if (other == NULL || !other->begun) {
        if (!is_expired(link->object_ms, horizon_ms))
            fault(checking, "chain %s, which it continues, is missing", link->chain);
    } else if (other->head.seq < link->seq) {
        fault(checking,
              "the last records of chain %s, which it continues, are missing: %llu to %llu",
              link->chain, (unsigned long long)other->head.seq + 1, (unsigned long long)link->seq);
    } else if (other->head.seq > link->seq ||
               memcmp(other->head.hash, link->hash, FG_AUDIT_HASH_BYTES) != 0) {
        fault(checking, "chain %s, which it continues, had another end: record %llu", link->chain,
              (unsigned long long)link->seq);
    }
}

void fg_audit_check_links(struct fg_audit_chain *chains, size_t n, fg_audit_on_fault on_fault,
                          void *arg)
{
    /* One compactor deletes the old objects of all chains, and its own chain says so: the latest
     * horizon holds for all. */
    int64_t horizon_ms = INT64_MIN;

    for (size_t i = 0; i < n; i++)
        horizon_ms =
            chains[i].horizon_ms == 0 ? horizon_ms : FG_MAX(horizon_ms, chains[i].horizon_ms);
    for (size_t i = 0; i < n; i++) {
        struct audit_checking checking = {&chains[i], NULL, on_fault, arg, 0};

        if (chains[i].begun && chains[i].first_object > 0 &&
            !is_expired(chains[i].before_ms, horizon_ms))
            fault(&checking,
                  "its first %llu objects are missing, and no record says that they were "
                  "deleted because of their age",
                  (unsigned long long)chains[i].first_object);
        if (chains[i].known.chain[0] != '\0' && !chains[i].known_seen &&
            !is_expired(chains[i].known.object_ms, horizon_ms))
            fault(&checking, "record %llu, which was known, is missing",
                  (unsigned long long)chains[i].known.seq);
        check_continued(&checking, chains, n, horizon_ms);
    }
}
