/*
 * The single-node server: distributor, ingester, querier and compactor in one process on a local
 * directory. They talk by the same calls as in a cluster, over the in-process transport.
 */
#ifndef FG_DEPLOY_SINGLE_SERVER_H
#define FG_DEPLOY_SINGLE_SERVER_H

/* `flamegrid server`: argv is what follows the word. Returns the exit code. */
int server_run(int argc, char **argv);

#endif
