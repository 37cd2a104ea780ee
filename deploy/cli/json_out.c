#include "deploy/cli/json_out.h"

#include "common/base/time.h"

#include <errno.h>
#include <string.h>
#include <time.h>

json_t *cli_json_text(struct fg_slice text)
{
    json_t *string = json_stringn((const char *)text.ptr, text.len);
    uint8_t *copy;

    if (string != NULL)
        return string;
    /* jansson has refused it: not UTF-8. Every byte beyond ASCII is replaced, since which of them
     * is wrong is unknown. */
    copy = fg_malloc(text.len + 1);
    for (size_t i = 0; i < text.len; i++)
        copy[i] = text.ptr[i] < 0x80 ? text.ptr[i] : '?';
    string = json_stringn((const char *)copy, text.len);
    free(copy);
    fg_assert(string != NULL);
    return string;
}

json_t *cli_json_u64(uint64_t number)
{
    return json_integer((json_int_t)FG_MIN(number, (uint64_t)INT64_MAX));
}

json_t *cli_json_time(int64_t wall_ns)
{
    /* Rounded down, also before 1970, where C's division rounds up. */
    int64_t ms = wall_ns / FG_MS_NS - (wall_ns % FG_MS_NS < 0);
    time_t seconds = (time_t)(ms / 1000 - (ms % 1000 < 0));
    char text[64];
    struct tm tm;

    if (gmtime_r(&seconds, &tm) == NULL)
        return json_null(); /* beyond the calendar */
    (void)snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                   (int)(ms - (int64_t)seconds * 1000));
    return json_string(text);
}

enum fg_code cli_json_print(json_t *document, FILE *out, struct fg_err *err)
{
    /* 15 digits show each decimal as it was meant; more show that doubles are binary. */
    bool good =
        json_dumpf(document, out, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) == 0;

    good = fputc('\n', out) != EOF && fflush(out) == 0 && good;
    json_decref(document);
    return good ? FG_OK : fg_fail_errno(err, errno, "cannot write output");
}

enum fg_code cli_json_reply(struct cli_client_reply *reply, json_t **ret_document,
                            struct fg_err *err)
{
    enum fg_code code = cli_client_check(reply, err);

    if (code == FG_OK) {
        *ret_document = json_loadb((const char *)reply->body.ptr, reply->body.len, 0, NULL);
        if (*ret_document == NULL)
            code = fg_fail(err, FG_E_DECODE, "the answer is not JSON");
    }
    cli_client_reply_done(reply);
    return code;
}

enum fg_code cli_json_report_begin(struct cli_json_report *report, struct fg_err *err)
{
    report->out = open_memstream(&report->text, &report->len);
    return report->out == NULL ? fg_fail_errno(err, errno, "memory for the report") : FG_OK;
}

enum fg_code cli_json_report_end(struct cli_json_report *report, enum fg_code code, bool applied,
                                 struct fg_err *err)
{
    json_t *lines = json_array(), *document;
    struct fg_err failed;
    char *rest;

    /* A failed allocation ends the process, so closing cannot fail. */
    (void)fclose(report->out);
    for (char *line = strtok_r(report->text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        (void)json_array_append_new(lines, cli_json_text(fg_cstr(line)));
    free(report->text);
    document = json_pack("{s:b,s:b,s:o}", "ok", code == FG_OK, "applied", code == FG_OK && applied,
                         "report", lines);
    if (code != FG_OK)
        (void)json_object_set_new(document, "error", cli_json_text(fg_cstr(err->msg)));
    if (cli_json_print(document, stdout, &failed) != FG_OK && code == FG_OK) {
        *err = failed;
        code = failed.code;
    }
    return code;
}
