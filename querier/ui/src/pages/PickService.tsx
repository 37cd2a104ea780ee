/* A page that the address says nothing about: which service, to begin with. */

import { useServices } from "../api/queries";
import { useSpan } from "../state/now";
import { useRoute } from "../state/route";
import { formatQuery } from "../state/selector";
import { byImportance, meaning } from "../state/types";
import { Skeleton } from "../ui/Busy";
import { Problem } from "../ui/Problem";
import { Onboarding } from "./Onboarding";

export function PickService({ what, text }: { what: string; text?: string }) {
  const { set } = useRoute();
  const services = useServices(useSpan());
  if (services.isError)
    return (
      <section className="card">
        <Problem fault={services.error} onRetry={() => void services.refetch()} />
      </section>
    );
  if (services.data === undefined)
    return (
      <section className="card profile">
        <Skeleton />
      </section>
    );
  const named = services.data.filter((one) => one.service !== "");
  if (named.length === 0) return <Onboarding />;
  return (
    <section className="card start">
      <h1>{what}: pick a service</h1>
      <p>
        {text ??
          "Both sides begin with it: the first and the second half of the range above. Each one can have another service, other filters and another time."}
      </p>
      <ul className="services">
        {named.map(({ service, types }) => {
          const type = [...types].sort(byImportance)[0]!;
          return (
            <li key={service}>
              <button
                type="button"
                className="btn"
                onClick={() => set({ query: formatQuery({ type, matchers: [{ name: "service_name", op: "=", value: service }] }) })}
              >
                {service}
                <span className="of">{meaning(type).label}</span>
              </button>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
