/* The address as React sees it: which page, and its parameters. */

import { useCallback, useMemo } from "react";
import { useLocation, useSearch } from "wouter";

import { type Address, type Params, type Patch, format, parse, patched } from "./url";

/* Everything is served in one folder, whatever prefix a proxy has put before it. */
export const BASE = location.pathname.slice(0, location.pathname.lastIndexOf("/"));

export interface Route {
  path: string;
  address: Address;
  params: Params;
  /* Changes parameters. replace: no step of its own in the history, while typing or dragging. */
  set: (patch: Patch, how?: { replace?: boolean; path?: string }) => void;
  /* The address that set() would go to, for links. */
  link: (patch: Patch, path?: string) => string;
}

/* As of now, and not as of the last render: two changes in one event must not undo each other. */
function now(): Address {
  return parse(location.search);
}

function join(path: string, search: string): string {
  return search === "" ? path : `${path}?${search}`;
}

export function useRoute(): Route {
  const [path, navigate] = useLocation();
  const search = useSearch();
  const address = useMemo(() => parse(search), [search]);
  const set = useCallback<Route["set"]>(
    (patch, how) => {
      const here = location.pathname.slice(BASE.length) || "/";
      const to = join(how?.path ?? here, format(patched(now(), patch)));
      if (to !== join(here, location.search.slice(1))) navigate(to, { replace: how?.replace ?? false });
    },
    [navigate],
  );
  const link = useCallback<Route["link"]>((patch, to) => BASE + join(to ?? path, format(patched(address, patch))), [address, path]);
  return { path, address, params: address.params, set, link };
}
