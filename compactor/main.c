#include "common/program/program.h"
#include "compactor/compactor.h"

static enum fg_code start(struct fg_program *program, struct fg_err *err)
{
    (void)err;
    program->service = compactor_create();
    return FG_OK;
}

static void stop(struct fg_program *program)
{
    compactor_destroy(program->service);
}

int main(int argc, char **argv)
{
    const struct fg_program_def def = {
        .name = "flamegrid-compactor",
        .what = "merges what ingesters commit, keeps and deletes by retention",
        .start = start,
        .stop = stop,
    };

    return fg_program_run(&def, argc - 1, argv + 1);
}
