/*
 * A series file has all labels of the profiles in its folder, written as a selector of equal
 * matchers: people can read and edit it, and the selector's parser exists.
 */
#include "deploy/cli/series_file.h"

#include "common/base/str.h"
#include "common/model/selector.h"
#include "deploy/cli/output.h"
#include "deploy/cli/upload_file.h"

#include <unistd.h>

/* ---- writing ---- */

enum fg_code cli_series_file_write(const char *path, const struct fg_labels *labels,
                                   struct fg_err *err)
{
    struct fg_matcher *matchers = fg_calloc(labels->count + 1, sizeof *matchers);
    enum fg_code code;
    struct fg_buf text;

    for (size_t i = 0; i < labels->count; i++)
        matchers[i] = (struct fg_matcher){
            .op = FG_MATCH_EQ, .name = labels->items[i].name, .value = labels->items[i].value};
    fg_buf_init(&text, FG_SELECTOR_MAX_BYTES);
    fg_selector_write(&(struct fg_selector){.matchers = matchers, .n_matchers = labels->count},
                      &text);
    fg_buf_putc(&text, '\n');
    if (text.full)
        code = fg_fail(err, FG_E_LIMIT, "%s: labels of more than %d bytes", path,
                       FG_SELECTOR_MAX_BYTES);
    else
        code = cli_output_write(path, fg_buf_slice(&text), err);
    fg_buf_done(&text);
    free(matchers);
    return code;
}

/* ---- reading ---- */

static enum fg_code take_labels(const struct fg_selector *selector, struct fg_arena *arena,
                                struct fg_labels *ret_labels, struct fg_err *err)
{
    struct fg_labels labels = {fg_arena_new(arena, struct fg_label, selector->n_matchers),
                               selector->n_matchers};

    if (labels.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many labels");
    for (size_t i = 0; i < labels.count; i++) {
        const struct fg_matcher *matcher = &selector->matchers[i];

        if (matcher->op != FG_MATCH_EQ)
            return fg_fail(err, FG_E_INVALID, "labels have one value each, with =: %.*s",
                           FG_S(matcher->name));
        labels.items[i] = (struct fg_label){matcher->name, matcher->value};
    }
    fg_labels_sort(&labels);
    if (fg_labels_get(&labels, FG_LABEL_SERVICE).len == 0)
        return fg_fail(err, FG_E_INVALID, "it lacks " FG_LABEL_SERVICE);
    *ret_labels = labels;
    return FG_OK;
}

enum fg_code cli_series_file_read(const char *path, struct fg_arena *arena,
                                  struct fg_labels *ret_labels, struct fg_err *err)
{
    struct fg_selector selector = {0};
    enum fg_code code;
    struct fg_buf text;

    if (access(path, F_OK) != 0)
        return fg_fail(err, FG_E_NOT_FOUND, "%s is not there", path);
    fg_buf_init(&text, FG_SELECTOR_MAX_BYTES);
    code = cli_upload_file_read(path, &text, err);
    if (code == FG_OK)
        code = fg_selector_parse(fg_trim(fg_buf_slice(&text)), arena, &selector, err);
    if (code == FG_OK)
        code = take_labels(&selector, arena, ret_labels, err);
    fg_selector_done(&selector);
    fg_buf_done(&text);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", path);
}
