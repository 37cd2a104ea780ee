#include "deploy/cli/verify_findings.h"

#include "deploy/cli/json_out.h"

#include <stdarg.h>

enum { FAULT_MAX_BYTES = 1024 }; /* an error's message and a sentence */

static void put_finding(struct cli_findings *findings, const char *kind, json_t *array,
                        const char *object, const char *what, const char *cure)
{
    /* It goes to the same terminal as the progress line, which would stay in front of it. */
    cli_progress_clear(findings->progress);
    if (array == NULL)
        (void)fprintf(findings->out, "%s: %s: %s; cure: %s\n", kind, object, what, cure);
    else
        (void)json_array_append_new(
            array, json_pack("{s:o,s:o,s:o}", "object", cli_json_text(fg_cstr(object)), kind,
                             cli_json_text(fg_cstr(what)), "cure", cli_json_text(fg_cstr(cure))));
}

void cli_findings_fault(struct cli_findings *findings, const char *object, const char *cure,
                        const char *format, ...)
{
    char what[FAULT_MAX_BYTES];
    va_list args;

    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it was begun in the line above */
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    findings->n_faults++;
    put_finding(findings, "fault", findings->faults, object, what, cure);
}

void cli_findings_unchecked(struct cli_findings *findings, const char *object, const char *cure,
                            const char *why)
{
    findings->n_unchecked++;
    put_finding(findings, "unchecked", findings->unchecked, object, why, cure);
}
