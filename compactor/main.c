#include "common/program/program.h"
#include "common/storage/bucket/settings.h"
#include "compactor/compactor.h"

#include <errno.h>
#include <sys/stat.h>

struct compactor_place {
    char *scratch, *name;
};

static struct cmp_settings settings;
static struct fg_bucket_settings bucket;
static struct fg_bucket_s3_settings s3;
static struct compactor_place place;
static const struct fg_conf_field place_fields[] = {
    {"scratch", FG_CONF_STRING, FG_CONF_AT(struct compactor_place, scratch),
     .def = "./compactor-scratch", .min = "1", .max = "4000",
     .doc = "Scratch directory for blocks in progress. It is created if it does not exist, and "
            "emptied at the start."},
    {"name", FG_CONF_STRING, FG_CONF_AT(struct compactor_place, name), .def = "",
     .doc = "Name of this compactor, unique among the compactors of the bucket. It determines how "
            "they share the tenants. Empty: the host name."},
};

struct compactor_service {
    struct fg_bucket *bucket;
    struct compactor *compactor;
};

static enum fg_code start(struct fg_program *program, struct fg_err *err)
{
    struct compactor_service *service = fg_new(struct compactor_service);
    const struct fg_disk *disk;
    const struct fg_bucket_host host = fg_program_bucket_host(program, NULL);

    program->service = service;
    cmp_share(&settings, program->settings.memory_max_bytes);
    if (fg_conf_default_host(&place.name, "name", err) != FG_OK)
        return err->code;
    if (mkdir(place.scratch, 0750) != 0 && errno != EEXIST)
        return fg_fail_errno(err, errno, "scratch folder %s", place.scratch);
    if (fg_program_disk(program, place.scratch, "scratch", &disk, err) != FG_OK ||
        fg_bucket_open(&bucket, &s3, &host, &service->bucket, err) != FG_OK ||
        fg_program_start_access(program, service->bucket, NULL, err) != FG_OK ||
        cmp_create(&(struct cmp_config){.settings = &settings,
                                        .bucket = service->bucket,
                                        .scratch = place.scratch,
                                        .disk = disk,
                                        .name = place.name,
                                        .work = program->work,
                                        .audit = program->audit,
                                        .access = program->access,
                                        .tenants = program->tenants,
                                        .registry = program->registry,
                                        .conditions = program->conditions,
                                        .clock = fg_cluster_clock_earlier(program->cluster_clock)},
                   &service->compactor, err) != FG_OK)
        return err->code;
    cmp_routes(service->compactor, program->admin);
    return FG_OK;
}

/* The bucket may be slow to answer. */
static enum fg_code ready(struct fg_program *program, struct fg_err *err)
{
    struct compactor_service *service = program->service;

    if (fg_program_check_bucket(program, service->bucket, err) != FG_OK)
        return err->code;
    fg_program_announce(program, service->bucket, "compactor", place.name);
    return cmp_start(service->compactor, err);
}

static void stop(struct fg_program *program)
{
    struct compactor_service *service = program->service;

    if (service == NULL)
        return;
    /* Each ends before what it uses: jobs on the threads of `work` use the compactor, and that
     * the bucket. */
    cmp_stop(service->compactor);
    fg_work_destroy(program->work);
    program->work = NULL;
    cmp_destroy(service->compactor);
    fg_program_unannounce(program);
    fg_program_stop_access(program);
    fg_bucket_close(service->bucket);
    free(service);
}

int main(int argc, char **argv)
{
    const struct fg_conf_section sections[] = {
        {"", place_fields, FG_COUNT(place_fields), &place},
        {"bucket", fg_bucket_fields, fg_bucket_n_fields, &bucket},
        {"bucket.s3", fg_bucket_s3_fields, fg_bucket_s3_n_fields, &s3},
        {"compactor", cmp_fields, cmp_n_fields, &settings},
    };
    const struct fg_program_def def = {
        .name = "flamegrid-compactor",
        .what = "merges committed segments into blocks and applies retention and deletions",
        .sections = sections,
        .n_sections = FG_COUNT(sections),
        .start = start,
        .ready = ready,
        .stop = stop,
    };

    return fg_program_run(&def, argc - 1, argv + 1);
}
