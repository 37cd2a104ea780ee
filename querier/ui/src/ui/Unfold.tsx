/* A part of a page that unfolds; which ones are open is in the address. */

import type { ReactNode } from "react";

import { useRoute } from "../state/route";

export function useOpen(name: string): [boolean, (on: boolean) => void] {
  const { params, set } = useRoute();
  const open = params.open === "" ? [] : params.open.split(",");
  const change = (on: boolean): void => {
    const others = open.filter((one) => one !== name);
    set({ open: (on ? [...others, name] : others).join(",") }, { replace: true });
  };
  return [open.includes(name), change];
}

interface Props {
  name: string; // in the address; without a comma
  className: string;
  summary: ReactNode;
  children: ReactNode;
}

export function Unfold({ name, className, summary, children }: Props) {
  const [open, change] = useOpen(name);
  return (
    <details
      className={className}
      open={open}
      onToggle={(event) => {
        if (event.currentTarget.open !== open) change(event.currentTarget.open);
      }}
    >
      <summary>{summary}</summary>
      {children}
    </details>
  );
}
