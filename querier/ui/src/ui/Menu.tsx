/* A button with a menu. It is not modal: modal ones put a style element into the page, which its policy forbids. */

import * as Dropdown from "@radix-ui/react-dropdown-menu";
import type { ReactNode } from "react";

import { Icon } from "./Icon";

export interface Choice {
  key: string;
  text: ReactNode;
  hint?: string; // at the right: a key, a format
  on?: boolean; // one of several that exclude each other
  disabled?: boolean;
  run: () => void;
}

export type Entry = Choice | "line" | { note: ReactNode };

export function Entries({ entries }: { entries: readonly Entry[] }) {
  return entries.map((entry, index) => {
    if (entry === "line")
      return (
        <Dropdown.Separator key={index} asChild>
          <hr />
        </Dropdown.Separator>
      );
    if ("note" in entry)
      return (
        <div key={index} className="note">
          {entry.note}
        </div>
      );
    const content = (
      <>
        {entry.on !== undefined && <span className="tick">{entry.on && <Icon name="tick" />}</span>}
        <span>{entry.text}</span>
        {entry.hint !== undefined && <span className="key">{entry.hint}</span>}
      </>
    );
    return entry.on === undefined ? (
      <Dropdown.Item key={entry.key} disabled={entry.disabled ?? false} onSelect={entry.run}>
        {content}
      </Dropdown.Item>
    ) : (
      <Dropdown.CheckboxItem key={entry.key} checked={entry.on} disabled={entry.disabled ?? false} onSelect={entry.run}>
        {content}
      </Dropdown.CheckboxItem>
    );
  });
}

interface MenuProps {
  trigger: ReactNode; // its text is the name of the button
  className?: string;
  entries: readonly Entry[];
  align?: "start" | "end";
}

export function Menu({ trigger, className = "btn", entries, align = "end" }: MenuProps) {
  return (
    <Dropdown.Root modal={false}>
      <Dropdown.Trigger className={className}>{trigger}</Dropdown.Trigger>
      <Dropdown.Portal>
        <Dropdown.Content className="floating menu" align={align} sideOffset={6} collisionPadding={8}>
          <Entries entries={entries} />
        </Dropdown.Content>
      </Dropdown.Portal>
    </Dropdown.Root>
  );
}

/* A menu at a point of the page, as a right click or a key opens it. */
export function MenuAt({ at, entries, onClose }: { at: { x: number; y: number } | null; entries: readonly Entry[]; onClose: () => void }) {
  return (
    <Dropdown.Root
      modal={false}
      open={at !== null}
      onOpenChange={(open) => {
        if (!open) onClose();
      }}
    >
      <Dropdown.Trigger asChild>
        <span
          aria-hidden="true"
          style={{ position: "fixed", left: at?.x ?? 0, top: at?.y ?? 0, width: 1, height: 1, pointerEvents: "none" }}
        />
      </Dropdown.Trigger>
      <Dropdown.Portal>
        <Dropdown.Content className="floating menu" align="start" sideOffset={2} collisionPadding={8}>
          <Entries entries={entries} />
        </Dropdown.Content>
      </Dropdown.Portal>
    </Dropdown.Root>
  );
}
