#include "deploy/cli/on_record.h"

static const int64_t FLUSH_NS = 30 * FG_SECOND_NS; /* longer than a command takes */

enum fg_code cli_on_record(struct fg_bucket *bucket, const char *program,
                           struct fg_audit_event event, cli_change change, void *arg,
                           struct fg_err *err)
{
    const struct fg_audit_settings settings = {.flush_ns = FLUSH_NS};
    struct fg_registry *registry = fg_registry_create();
    struct fg_audit *audit = fg_audit_create(&(struct fg_audit_config){
        .settings = &settings, .program = program, .clock = fg_clock_real(), .registry = registry});
    enum fg_code code = fg_audit_open(audit, bucket, "", err);

    if (code == FG_OK)
        code = fg_audit_begin(audit, &event, err);
    if (code == FG_OK) {
        code = change(arg, &event, err);
        fg_audit_result(audit, &event, code, err);
    }
    fg_audit_destroy(audit);
    fg_registry_destroy(registry);
    return code;
}
