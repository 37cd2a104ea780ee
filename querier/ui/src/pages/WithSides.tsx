/* What the pages with two selections need first: two that can be read, or a service to begin with. */

import type { ReactNode } from "react";

import { Problem } from "../ui/Problem";
import { useSelection } from "../ui/QueryBar";
import { useSides } from "../ui/sides";
import { PickService } from "./PickService";

export type GivenSides = ReturnType<typeof useSides>;

export function WithSides({ what, children }: { what: "Compare" | "Diff"; children: (given: GivenSides) => ReactNode }) {
  const given = useSides();
  const left = useSelection(given.sides.left.query);
  const right = useSelection(given.sides.right.query);
  if (left.fault !== null || right.fault !== null)
    return (
      <section className="card">
        <Problem fault={left.fault ?? right.fault} />
      </section>
    );
  if (left.query.type === "" && right.query.type === "") return <PickService what={what} />;
  return children(given);
}
