import { useRoute } from "./route";
import { type Patch, carried, format, parse, patched } from "./url";

/* An address of another page: what is asked for goes along, how this page is looked at does not. */
export function useElsewhere(): (path: string, patch: Patch) => string {
  const { address } = useRoute();
  return (path, patch) => {
    const search = format(patched(parse(carried(address)), patch));
    return search === "" ? path : `${path}?${search}`;
  };
}
