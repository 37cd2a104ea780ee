#include "tests/lib/corpus.h"

#include "common/base/str.h"
#include "common/net/inflate.h"
#include "proto/folded.h"
#include "tests/lib/batch_folded.h"

#include <unistd.h>

enum {
    BODY_MAX_BYTES = 64 * 1024 * 1024,
    COLUMNS = 14, /* of the manifest */
    FILE_NAME = 0,
    FORMAT = 1,
    TYPES = 7,
    TOTALS = 8,
    EXPECT = 12,
};

const char *corpus_folder(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    const char *folder = getenv("FG_SHARED");
    char path[1024];

    if (folder == NULL)
        folder = FG_SOURCE_DIR "/../shared";
    (void)snprintf(path, sizeof path, "%s/corpus", folder);
    return access(path, R_OK) == 0 ? folder : FG_SOURCE_DIR "/tests/data";
}

bool corpus_read(const char *name, struct fg_buf *out)
{
    char path[1024];
    uint8_t chunk[8192];
    size_t got;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/corpus/%s", corpus_folder(), name);
    file = fopen(path, "rb");
    fg_buf_clear(out);
    if (file == NULL)
        return false;
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0)
        fg_buf_append(out, chunk, got);
    (void)fclose(file);
    return true;
}

bool corpus_unpack(const struct fg_buf *in, struct fg_buf *out)
{
    struct fg_slice bytes = fg_buf_slice(in);
    struct fg_err err;

    return fg_inflate(bytes, fg_coding_sniff(bytes), BODY_MAX_BYTES, out, &err) == FG_OK;
}

struct fg_slice corpus_take(struct fg_slice *text, uint8_t end)
{
    size_t at = fg_slice_find(*text, end);
    struct fg_slice taken = fg_slice_sub(*text, 0, at);

    *text = at == SIZE_MAX ? fg_bytes(NULL, 0) : fg_slice_sub(*text, at + 1, SIZE_MAX);
    return taken;
}

static bool are_numbers(struct fg_slice totals)
{
    int64_t number;

    if (totals.len == 0)
        return false;
    while (totals.len > 0)
        if (!fg_parse_i64(corpus_take(&totals, ' '), &number))
            return false; /* "see notes" and the like */
    return true;
}

bool corpus_next_row(struct fg_slice *text, struct corpus_row *ret_row)
{
    struct fg_slice line, columns[COLUMNS];

    if (text->len == 0)
        return false;
    line = corpus_take(text, '\n');
    for (size_t i = 0; i < COLUMNS; i++)
        columns[i] = corpus_take(&line, '\t');
    *ret_row = (struct corpus_row){
        .file = columns[FILE_NAME],
        .format = columns[FORMAT],
        .types = columns[TYPES],
        .totals = columns[TOTALS],
        .expect = columns[EXPECT],
        .has_totals = are_numbers(columns[TOTALS]),
    };
    return true;
}

/* expected/<file, "/" as "__">[.<type>].folded, packed where it is large */
bool corpus_expected(struct fg_slice file, const char *type, struct fg_buf *out)
{
    struct fg_buf name, packed;
    bool there;

    fg_buf_init(&name, SIZE_MAX);
    fg_buf_init(&packed, SIZE_MAX);
    fg_buf_puts(&name, "expected/");
    for (size_t i = 0; i < file.len; i++)
        if (file.ptr[i] == '/')
            fg_buf_puts(&name, "__");
        else
            fg_buf_putc(&name, file.ptr[i]);
    fg_buf_printf(&name, "%s%s.folded.gz", type[0] == '\0' ? "" : ".", type);
    fg_buf_putc(&name, '\0');
    there = corpus_read((const char *)name.ptr, &packed);
    if (!there) {
        name.ptr[name.len - strlen(".gz") - 1] = '\0';
        there = corpus_read((const char *)name.ptr, &packed);
    }
    there = there && corpus_unpack(&packed, out);
    fg_buf_done(&name);
    fg_buf_done(&packed);
    return there;
}

void corpus_merge(struct fg_slice text, struct fg_buf *out)
{
    struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("x")},
                                {FG_LIT("service_name"), FG_LIT("x")}};
    struct fg_folded_request request = {.upload = {.labels = {labels, 2}}, .factor = 1};
    struct fg_arena *arena = fg_arena_create(BODY_MAX_BYTES);
    struct fg_value_type type = {FG_LIT(""), FG_LIT("")};
    struct fg_batch batch = {.types = &type, .n_types = 1};
    struct fg_decode_counts counts = {0};
    struct fg_err err;

    fg_assert(fg_folded_decode(text, &request, arena, &batch, &counts, &err) == FG_OK);
    batch_folded(&batch, 0, out);
    fg_arena_destroy(arena);
}
