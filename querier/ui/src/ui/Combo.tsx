/* A button that opens a list with a search field: services, profile types, labels, values. */

import * as Popover from "@radix-ui/react-popover";
import { useCombobox } from "downshift";
import { type ReactNode, useState } from "react";

export interface Item {
  key: string;
  text: string; // what is searched
  more?: string; // at the right
  title?: string;
}

const SHOWN_MAX = 300; // more are found by typing

interface ListProps {
  label: string;
  items: readonly Item[];
  selected: string;
  onPick: (key: string) => void;
  /* Typing also asks for what the list does not have. */
  onInput?: (text: string) => void;
  /* The typed text itself may be picked, as a regular expression is. */
  free?: boolean;
  foot?: ReactNode;
  none?: string;
  initial?: string;
}

function matches(item: Item, words: readonly string[]): boolean {
  const text = `${item.text} ${item.key}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

export function PickList({
  label,
  items,
  selected,
  onPick,
  onInput,
  free = false,
  foot,
  none = "Nothing matches.",
  initial = "",
}: ListProps) {
  const [text, setText] = useState(initial);
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const found = items.filter((item) => matches(item, words)).slice(0, SHOWN_MAX);
  const shown = free && text !== "" && !found.some((item) => item.key === text) ? [{ key: text, text, more: "as typed" }, ...found] : found;
  const combo = useCombobox<Item>({
    items: shown,
    isOpen: true,
    inputValue: text,
    selectedItem: items.find((item) => item.key === selected) ?? null,
    itemToString: (item) => item?.text ?? "",
    defaultHighlightedIndex: 0,
    onStateChange: ({ type, selectedItem }) => {
      const types = useCombobox.stateChangeTypes;
      if ((type === types.ItemClick || type === types.InputKeyDownEnter) && selectedItem) onPick(selectedItem.key);
    },
    /* Picking what is selected already is a choice, too; downshift tells only changes. */
    stateReducer: (_, { type, changes }) =>
      type === useCombobox.stateChangeTypes.InputKeyDownEscape ? { ...changes, isOpen: true } : changes,
  });

  return (
    <div className="pick">
      <div className="head">
        <input
          className="input"
          {...combo.getInputProps({
            "aria-label": label,
            placeholder: label,
            spellCheck: false,
            autoFocus: true,
            /* At once, and not by downshift's later callback: a controlled field would lose what is typed meanwhile. */
            onChange: (event: React.ChangeEvent<HTMLInputElement>) => {
              setText(event.target.value);
              onInput?.(event.target.value);
            },
          })}
        />
      </div>
      <ul {...combo.getMenuProps({ "aria-label": label })}>
        {shown.map((item, index) => (
          <li
            key={item.key}
            title={item.title}
            className={index === combo.highlightedIndex ? "on" : undefined}
            {...combo.getItemProps({
              item,
              index,
              onClick: () => {
                if (item.key === selected) onPick(item.key);
              },
            })}
            aria-selected={item.key === selected}
          >
            <span>{item.text}</span>
            {item.more !== undefined && <span className="more">{item.more}</span>}
          </li>
        ))}
      </ul>
      {shown.length === 0 && (
        <p className="none" role="status">
          {none}
        </p>
      )}
      {foot !== undefined && <div className="foot">{foot}</div>}
    </div>
  );
}

interface ComboProps extends Omit<ListProps, "selected"> {
  trigger: ReactNode; // its text is the name of the button
  selected: string;
  className?: string;
  onOpen?: (open: boolean) => void;
}

export function Combo({ trigger, className = "btn", onOpen, onPick, ...list }: ComboProps) {
  const [open, setOpen] = useState(false);
  const change = (to: boolean): void => {
    setOpen(to);
    onOpen?.(to);
  };

  return (
    <Popover.Root open={open} onOpenChange={change}>
      <Popover.Trigger className={className}>{trigger}</Popover.Trigger>
      <Popover.Portal>
        <Popover.Content className="floating" align="start" sideOffset={6} collisionPadding={8} aria-label={list.label}>
          <PickList
            {...list}
            onPick={(key) => {
              change(false);
              onPick(key);
            }}
          />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}
