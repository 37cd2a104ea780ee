/* One short line at the bottom that goes away: what an action without a picture did. */

import { useSyncExternalStore } from "react";

const SHOWN_MS = 3500;

let text = "";
let timer = 0;
const listeners = new Set<() => void>();

function tell(next: string): void {
  text = next;
  for (const listener of listeners) listener();
}

export function toast(message: string): void {
  clearTimeout(timer);
  tell(message);
  timer = window.setTimeout(() => tell(""), SHOWN_MS);
}

export function Toast() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => text,
  );
  return (
    <div role="status" aria-live="polite">
      {shown !== "" && <div className="toast">{shown}</div>}
    </div>
  );
}

/* Without https a browser has no clipboard; then the text is shown to be copied by hand. */
export async function copy(what: string, content: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(content);
    toast(`${what} copied`);
  } catch {
    const area = document.createElement("textarea");
    area.value = content;
    area.className = "hidden-text";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    toast(done ? `${what} copied` : `The browser does not let this page copy: ${content}`);
  }
}
