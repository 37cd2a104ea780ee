/* A dialog of the browser's own: it keeps the focus inside, Escape closes it, and the page behind does not answer. */

import { type ReactNode, useEffect, useId, useRef } from "react";

import { Icon } from "./Icon";

export function Dialog({ title, open, onClose, children }: { title: string; open: boolean; onClose: () => void; children: ReactNode }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();

  useEffect(() => {
    const dialog = ref.current!;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);

  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === ref.current) onClose();
      }}
    >
      {open && (
        <>
          <header>
            <h2 id={id}>{title}</h2>
            <button type="button" className="btn bare icon" aria-label="Close" onClick={onClose}>
              <Icon name="close" />
            </button>
          </header>
          <div className="body">{children}</div>
        </>
      )}
    </dialog>
  );
}
