import { useEffect, useRef, useState } from "react";

import { Icon } from "./Icon";

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  found?: string; // what the search found, in a few words
  wrong?: boolean;
}

/* "/" brings the focus here (ui/Shortcuts.tsx), Escape clears. */
export function SearchField({ label, value, onChange, found = "", wrong = false }: Props) {
  const ref = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(value);
  /* What the address says, unless the user is typing: then the address follows. */
  useEffect(() => {
    if (document.activeElement !== ref.current || value === "") setText(value);
  }, [value]);

  return (
    <div className={wrong ? "search bad" : "search"} role="search">
      <Icon name="search" />
      <input
        ref={ref}
        className="input"
        type="search"
        data-search
        aria-label={label}
        placeholder={label}
        value={text}
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => {
          setText(event.target.value);
          onChange(event.target.value);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation();
          if (text === "") ref.current!.blur();
          setText("");
          onChange("");
        }}
      />
      {text === "" ? (
        <kbd aria-hidden="true">/</kbd>
      ) : (
        <span className="hits" role="status">
          {found}
        </span>
      )}
    </div>
  );
}
