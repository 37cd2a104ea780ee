/* The file of lines that a killed process has left, or an object of the audit. What is read is
 * written as it was read. */
#include "common/access/audit/audit_record.h"

static void on_fault(void *arg, const char *chain, const char *sentence)
{
    (void)arg;
    fg_assert(strlen(chain) <= FG_AUDIT_CHAIN_MAX_BYTES && sentence[0] != '\0');
}

static void read_line(struct fg_slice line)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1024 * 1024);
    struct fg_audit_record record, again;
    struct fg_buf text;
    struct fg_err err;

    if (fg_audit_read(line, arena, &record, &err) != FG_OK)
        return;
    fg_buf_init(&text, FG_AUDIT_LINE_MAX_BYTES);
    fg_audit_write_event(&record.event, &text);
    fg_assert(!text.full && fg_audit_read(fg_buf_slice(&text), arena, &again, &err) == FG_OK &&
              again.event.kind == record.event.kind && again.event.bytes == record.event.bytes &&
              again.event.who.len <= FG_AUDIT_TEXT_MAX_BYTES);
    fg_buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fg_audit_name name = {.chain = "querier-1"};
    struct fg_slice in = fg_bytes(data, size);
    struct fg_audit_chain chain = {.records = 0};
    struct fg_audit_name read_name;
    struct fg_audit_link link;
    uint64_t object;

    read_line(fg_slice_sub(in, 0, fg_slice_find(in, '\n')));
    fg_assert(fg_audit_whole(in, &link, &object) <= size);
    fg_audit_check_object(&chain, &name, in, on_fault, NULL);
    fg_audit_check_links(&chain, 1, on_fault, NULL);
    if (fg_audit_read_name(in, &read_name))
        fg_assert(size < FG_AUDIT_NAME_MAX_BYTES);
    return 0;
}
