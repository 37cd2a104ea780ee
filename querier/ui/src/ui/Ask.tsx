import type { ReactNode } from "react";

import { Dialog } from "./Dialog";
import { Problem } from "./Problem";

export const NOT_VALID = "This cannot be"; // what the server says to a change that is wrong

/* A dialog with a form. What the server refuses is said in it, and what was typed stays. */
export function Ask({
  title,
  action,
  danger = false,
  unready = false,
  change,
  onSubmit,
  onClose,
  children,
}: {
  title: string;
  action: string; // what its button says
  danger?: boolean;
  unready?: boolean; // something that it needs is not there yet
  change: { isPending: boolean; error: Error | null };
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}) {
  return (
    <Dialog title={title} open onClose={onClose}>
      <form
        className="fields admin-form"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        {children}
        {change.error !== null && <Problem fault={change.error} wrong={NOT_VALID} />}
        <div className="line">
          <button type="submit" className={danger ? "btn danger" : "btn main"} disabled={change.isPending || unready}>
            {action}
          </button>
          <button type="button" className="btn" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
