#include "deploy/cli/push_resume.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "deploy/cli/upload_file.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct cli_resume {
    const char *path; /* borrowed */
    FILE *file;
    struct fg_buf lines; /* as they were read; `sent` borrows from it */
    struct fg_slice *sent;
    size_t n_sent;
};

int64_t cli_resume_modified_ns(const struct stat *file)
{
    return (int64_t)file->st_mtim.tv_sec * FG_SECOND_NS + file->st_mtim.tv_nsec;
}

/* Sorted, since cli_resume_has() looks up each file of the folder. */
static int by_text(const void *a, const void *b)
{
    return fg_slice_cmp(*(const struct fg_slice *)a, *(const struct fg_slice *)b);
}

/* Indexes the whole lines after the first, sorted. Drops a line that was cut short: its file is
 * sent again, and counts once. */
static void index_lines(struct cli_resume *resume, struct fg_slice text)
{
    struct fg_slice rest = text;
    size_t n = 0, end;

    /* Counts first: one allocation, although the notes may have millions of lines. */
    while ((end = fg_slice_find(rest, '\n')) != SIZE_MAX) {
        rest = fg_slice_sub(rest, end + 1, SIZE_MAX);
        n++;
    }
    resume->sent = fg_calloc(FG_MAX(n, 1), sizeof *resume->sent);
    while ((end = fg_slice_find(text, '\n')) != SIZE_MAX) {
        resume->sent[resume->n_sent++] = fg_slice_sub(text, 0, end);
        text = fg_slice_sub(text, end + 1, SIZE_MAX);
    }
    fg_assert(resume->n_sent == n);
    if (resume->n_sent > 1)
        qsort(resume->sent, resume->n_sent, sizeof *resume->sent, by_text);
}

static enum fg_code read_notes(struct cli_resume *resume, struct fg_slice head, struct fg_err *err)
{
    struct fg_slice text;

    if (access(resume->path, F_OK) != 0)
        return FG_OK;
    if (cli_upload_file_read(resume->path, &resume->lines, err) != FG_OK)
        return err->code;
    text = fg_buf_slice(&resume->lines);
    if (text.len == 0)
        return FG_OK;
    /* Notes of another server or folder would make this run skip files that were never sent
     * here. */
    if (!fg_slice_eq(fg_slice_sub(text, 0, head.len), head))
        return fg_fail(err, FG_E_INVALID,
                       "is not of this folder and server; remove it, or name another");
    index_lines(resume, fg_slice_sub(text, head.len, SIZE_MAX));
    return FG_OK;
}

/* Opens the notes for appending. Ends a line that was cut short. */
static enum fg_code open_notes(struct cli_resume *resume, struct fg_slice head, struct fg_err *err)
{
    struct fg_slice text = fg_buf_slice(&resume->lines);

    resume->file = fopen(resume->path, "abe");
    if (resume->file == NULL)
        return fg_fail_errno(err, errno, "cannot write");
    if (text.len == 0)
        (void)fwrite(head.ptr, 1, head.len, resume->file);
    else if (!fg_slice_ends(text, "\n"))
        (void)fputc('\n', resume->file);
    return FG_OK;
}

enum fg_code cli_resume_open(const char *file, const char *url, const char *dir,
                             struct cli_resume **ret_resume, struct fg_err *err)
{
    struct cli_resume *resume = fg_new(struct cli_resume);
    struct fg_err ignored;
    struct fg_buf head;

    resume->path = file;
    fg_buf_init(&resume->lines, UPLOAD_FILE_MAX_BYTES);
    fg_buf_init(&head, SIZE_MAX);
    fg_buf_printf(&head, "flamegrid push --dir 1 %s %s\n", url, dir);
    enum fg_code code = read_notes(resume, fg_buf_slice(&head), err);
    if (code == FG_OK)
        code = open_notes(resume, fg_buf_slice(&head), err);
    fg_buf_done(&head);
    if (code != FG_OK) {
        (void)fg_wrap(err, "--resume %s", file);
        (void)cli_resume_close(resume, false, &ignored);
        return code;
    }
    *ret_resume = resume;
    return FG_OK;
}

/* Size and time of change are part of the line: a file that has changed since is sent again. */
static void put_line(struct fg_buf *out, const char *path, uint64_t bytes, int64_t modified_ns)
{
    fg_buf_printf(out, "%llu %lld %s", (unsigned long long)bytes, (long long)modified_ns, path);
}

bool cli_resume_has(const struct cli_resume *resume, const char *path, const struct stat *now)
{
    struct fg_buf line;
    struct fg_slice wanted;
    bool has;

    if (resume->n_sent == 0)
        return false;
    fg_buf_init(&line, SIZE_MAX);
    put_line(&line, path, (uint64_t)now->st_size, cli_resume_modified_ns(now));
    wanted = fg_buf_slice(&line);
    has = bsearch(&wanted, resume->sent, resume->n_sent, sizeof wanted, by_text) != NULL;
    fg_buf_done(&line);
    return has;
}

void cli_resume_note(struct cli_resume *resume, const char *path, uint64_t bytes,
                     int64_t modified_ns)
{
    struct fg_buf line;

    fg_buf_init(&line, SIZE_MAX);
    put_line(&line, path, bytes, modified_ns);
    fg_buf_putc(&line, '\n');
    (void)fwrite(line.ptr, 1, line.len, resume->file); /* cli_resume_close() reports a failure */
    /* After each file: an interrupted run must not forget what it has sent. */
    (void)fflush(resume->file);
    fg_buf_done(&line);
}

enum fg_code cli_resume_close(struct cli_resume *resume, bool complete, struct fg_err *err)
{
    enum fg_code code = FG_OK;

    if (resume == NULL)
        return FG_OK;
    if (resume->file != NULL) {
        bool bad = ferror(resume->file) != 0;

        bad = fclose(resume->file) != 0 || bad;
        /* The file is a note for the next run; after a complete one it would make that skip
         * everything. */
        if (complete)
            (void)unlink(resume->path);
        else if (bad)
            code = fg_fail(err, FG_E_UNAVAILABLE, "--resume %s: not all that was sent is noted",
                           resume->path);
    }
    free(resume->sent);
    fg_buf_done(&resume->lines);
    free(resume);
    return code;
}
