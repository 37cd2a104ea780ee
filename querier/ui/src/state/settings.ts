/* What the browser keeps: looks and habits, never what a page shows. */

import { useSyncExternalStore } from "react";

export interface Settings {
  theme: "system" | "dark" | "light";
  utc: boolean;
  shortcuts: boolean;
  sourceLinks: string; // an address with {name}; "": none
  recentRanges: { from: string; until: string }[];
  lastQuery: string;
  split: number; // part of the width that the table has
  barPx: number; // height of a flame graph's rows
}

const KEY = "flamegrid.settings";
const DEFAULTS: Settings = {
  theme: "system",
  utc: false,
  shortcuts: true,
  sourceLinks: "",
  recentRanges: [],
  lastQuery: "",
  split: 0.36,
  barPx: 20,
};
const RECENT_MAX = 5;

function load(): Settings {
  try {
    return { ...DEFAULTS, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Settings>) };
  } catch {
    return DEFAULTS; // storage is off, or holds what an older page wrote
  }
}

let current = load();
const listeners = new Set<() => void>();
const systemLight = matchMedia("(prefers-color-scheme: light)");

export function settings(): Settings {
  return current;
}

export function change(patch: Partial<Settings>): void {
  current = { ...current, ...patch };
  try {
    localStorage.setItem(KEY, JSON.stringify(current));
  } catch {
    // For this page it holds; the next one has the defaults.
  }
  applyTheme();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useSettings(): Settings {
  return useSyncExternalStore(subscribe, settings);
}

export function isDark(): boolean {
  return current.theme === "system" ? !systemLight.matches : current.theme === "dark";
}

export function useDark(): boolean {
  return useSyncExternalStore(subscribe, isDark);
}

function applyTheme(): void {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
}

export function startTheme(): void {
  applyTheme();
  systemLight.addEventListener("change", () => {
    applyTheme();
    for (const listener of listeners) listener();
  });
}

export function rememberRange(range: { from: string; until: string }): void {
  const others = current.recentRanges.filter((one) => one.from !== range.from || one.until !== range.until);
  change({ recentRanges: [range, ...others].slice(0, RECENT_MAX) });
}
