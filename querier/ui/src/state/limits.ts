/* Limits of a tenant, and what it has of them. */

export interface Use {
  amount: number | null; // null: it cannot be compared with the limit
  text: string;
}

const UNITS: Record<string, number> = { "": 1, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };

/* A limit as the server writes it: a number, or bytes. 0: none, or something else. */
export function amountOf(value: string): number {
  const found = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(value);
  return found === null ? 0 : Number(found[1]) * (UNITS[found[2]!] ?? 0);
}
