import { ApiError } from "../api/client";
import { useRoute } from "../state/route";
import { useSelection } from "../ui/QueryBar";
import { Problem } from "../ui/Problem";
import { Overview } from "./Overview";
import { Single } from "./Single";

/* All services, or one selection; a profile type is what there is one of in a flame graph. */
export function Explore() {
  const { params } = useRoute();
  const { query, fault } = useSelection(params.query);

  if (fault !== null)
    return (
      <section className="card">
        <Problem fault={new ApiError(fault.message, 400, "invalid_argument", null)} />
      </section>
    );
  if (params.query === "") return <Overview />;
  return <Single query={query} />;
}
