/* Answers of the server, as querier/API.md has them. */

export interface Statistics {
  complete: boolean;
  missing?: string;
  exact: boolean;
  saturated?: boolean;
  bound?: number;
  unit?: string;
  ranges?: { from: number; until: number }[];
  profiles: number;
  series: number;
  bytes: number;
  rollups?: number;
  objects?: number;
  requests?: number;
  cache_hits?: number;
  disk_hits?: number;
  millis: number;
}

export interface Flamebearer {
  names: string[];
  levels: number[][];
  numTicks: number;
  maxSelf: number;
}

export interface FunctionRow {
  name: string;
  self: number;
  total: number;
  self_share: number;
  total_share: number;
}

export interface Functions {
  type: string;
  unit: string;
  total: number;
  count: number;
  functions: FunctionRow[];
  next?: string;
  statistics: Statistics;
}

export interface Sandwich {
  total: number;
  self: number;
  with_callees: number;
  callees: Flamebearer;
  callers: Flamebearer;
  statistics: Statistics;
}

export interface LabelRow {
  name: string;
  series: number;
  values: number;
}

export interface Labels {
  series: number;
  count: number;
  labels: LabelRow[];
  next?: string;
  truncated?: { what: string[]; setting: string; limit: number };
  statistics: Statistics;
}

export interface ValueRow {
  value: string;
  series: number;
  total?: number;
  share?: number;
}

export interface Values {
  series: number;
  count: number;
  values: ValueRow[];
  type?: string;
  unit?: string;
  total?: number;
  next?: string;
  truncated?: { what: string[]; setting: string; limit: number };
  statistics: Statistics;
}

export interface AdhocFile {
  id: string;
  name: string;
  bytes: number;
  uploaded: number;
  expires: number;
  format?: string;
  type?: string;
  types?: string[];
}
