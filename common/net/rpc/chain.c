#include "common/net/rpc/chain.h"

static void on_answer(struct fg_call *call)
{
    struct fg_chain *chain = fg_container(call, struct fg_chain, call);

    if (!atomic_exchange(&chain->one_came, true))
        return; /* fg_chain_run() continues */
    if (chain->go_on(chain))
        fg_chain_run(chain);
}

void fg_chain_run(struct fg_chain *chain)
{
    do {
        chain->prepare(chain);
        chain->call.done = on_answer;
        atomic_store(&chain->one_came, false);
        fg_peer_send(chain->peer, &chain->call);
        if (!atomic_exchange(&chain->one_came, true))
            return; /* on_answer() continues; the chain may be gone already */
    } while (chain->go_on(chain));
}
