/* Peculiarities of the pprofs that agents send. */
#ifndef FG_PROTO_PPROF_QUIRKS_H
#define FG_PROTO_PPROF_QUIRKS_H

/* Flags; distributor/API.md#pprof says which agents need which. */
enum fg_pprof_quirk {
    FG_PPROF_SCRIPT_NAMES = 1,    /* name functions "<file> <function>" (pyspy, rbspy, scripting) */
    FG_PPROF_SCRIPT_RELATIVE = 2, /* ... only where the file is not an absolute path (pyspy) */
    FG_PPROF_DOTNET = 4,          /* function ids from locations; '-' in types becomes '_' */
    FG_PPROF_GO = 8,              /* the agent is Go's: drop "[go.shape.…]" from names */
    FG_PPROF_NOT_GO = 16, /* it is not; without both flags the decoder guesses by the names */
};

#endif
