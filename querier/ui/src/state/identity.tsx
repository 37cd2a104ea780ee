/* Answers are kept for one tenant and one person: another one begins with nothing, and what was under way for the other is stopped. */

import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { type ReactNode, useMemo, useSyncExternalStore } from "react";

import { identityVersion, onIdentity, setTenant } from "../api/client";
import { isPassing } from "../api/queries";
import { useRoute } from "./route";

const RETRIES = 2;

function newClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        retry: (failed, fault) => failed < RETRIES && isPassing(fault),
        refetchOnWindowFocus: false,
      },
    },
  });
}

export function IdentityProvider({ children }: { children: ReactNode }) {
  const { tenant } = useRoute().params;
  const version = useSyncExternalStore(onIdentity, identityVersion);
  const client = useMemo(newClient, [tenant, version]);

  setTenant(tenant); // before any page asks
  return (
    <QueryClientProvider key={`${version} ${tenant}`} client={client}>
      {children}
    </QueryClientProvider>
  );
}
