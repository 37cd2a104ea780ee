/* Icons of 15 px with lines of 1.7: drawn here, so that nothing is loaded for them. */

const PATHS = {
  explore: "M12 3c1 4 5 5.5 5 10a5 5 0 0 1-10 0c0-2 1-3.5 2-4.5.3 1.5 1 2.500 2 3C11.500 8.500 11 6 12 3z",
  labels: "M3.500 4.500v6.800l8.900 8.900 7-7-8.900-8.700zM8 9h.01",
  spans: "M3 7h8M7 12h10M12 17h9",
  compare: "M4 5h6.500v14H4zM13.500 5H20v14h-6.500z",
  diff: "M8 4v16m0 0-4-4m4 4 4-4M16 20V4m0 0-3 3m3-3 4 4",
  adhoc: "M12 16V4m0 0L7 9m5-5 5 5M4 20h16",
  targets: "M12 3v4m0 10v4M3 12h4m10 0h4M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z",
  status: "M3 12h4l3-8 4 16 3-8h4",
  usage: "M4 20h16M6 20v-6M11 20V9M16 20V5",
  admin: "M12 3 5 6v5c0 4.500 3 8 7 10 4-2 7-5.500 7-10V6zM9 12l2 2 4-4",
  down: "m6 9 6 6 6-6",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6 6 18",
  clock: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 4v5l3 2",
  refresh: "M20 11a8 8 0 1 0-2.300 6.300M20 5v6h-6",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2m0 16v2M2 12h2m16 0h2M5 5l1.400 1.400M17.600 17.600 19 19M19 5l-1.400 1.400M6.400 17.600 5 19",
  moon: "M20 14.500A8 8 0 1 1 9.500 4a6.500 6.500 0 0 0 10.500 10.500z",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  flip: "M8 4v16m0 0-4-4m4 4 4-4M16 20V4m0 0-4 4m4-4 4 4",
  palette:
    "M12 3a9 9 0 1 0 0 18c2 0 1.500-1.800 1-2.700-.6-1.200.3-2.300 1.500-2.300H17a4 4 0 0 0 4-4c0-5-4-9-9-9zM7.500 11h.01M11 7.500h.01M15.500 8.500h.01",
  group: "M4 6h16M7 12h13M10 18h10",
  share: "M10 14a4 4 0 0 0 5.700 0l3-3A4 4 0 0 0 13 5.300l-1 1M14 10a4 4 0 0 0-5.700 0l-3 3A4 4 0 0 0 11 18.700l1-1",
  export: "M12 4v11m0 0-4-4m4 4 4-4M4 20h16",
  tick: "m5 12 5 5 9-10",
  warn: "M12 4 2.500 20h19zM12 10v4m0 3h.01",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  keyboard: "M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13",
  user: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4 20c1-4 4-5 8-5s7 1 8 5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 15 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth={1.9}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Mark() {
  return (
    <svg width="30" height="26" viewBox="0 0 30 26" fill="currentColor" aria-hidden="true">
      <rect x="1" y="1" width="28" height="6.500" rx="1.500" />
      <rect x="1" y="9.500" width="9" height="6.500" rx="1.500" />
      <rect x="12" y="9.500" width="17" height="6.500" rx="1.500" opacity=".75" />
      <rect x="1" y="18" width="5" height="6.500" rx="1.500" opacity=".75" />
      <rect x="8" y="18" width="6" height="6.500" rx="1.500" />
    </svg>
  );
}
