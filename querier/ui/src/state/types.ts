/* What profile types are called, and what their values are. */

import { formatCount, formatRate, formatValue, unitOf } from "../flame/units";

export interface ProfileType {
  id: string;
  name: string; // process_cpu
  sample: string; // cpu
  unit: string; // nanoseconds
}

export function profileType(id: string): ProfileType {
  const parts = id.split(":");
  return { id, name: parts[0] ?? "", sample: parts[1] ?? "", unit: parts[2] ?? "" };
}

interface Meaning {
  label: string;
  what: string;
}

const BY_NAME: Record<string, Meaning> = {
  "process_cpu:cpu": { label: "CPU time", what: "Time that the program ran on a processor." },
  "process_cpu:samples": { label: "CPU samples", what: "How often the profiler found the program running." },
  "memory:alloc_space": { label: "Allocated memory", what: "Bytes that were allocated, freed since or not." },
  "memory:alloc_objects": { label: "Allocated objects", what: "Objects that were allocated, freed since or not." },
  "memory:inuse_space": { label: "Memory in use", what: "Bytes that were allocated and are not freed." },
  "memory:inuse_objects": { label: "Objects in use", what: "Objects that were allocated and are not freed." },
  "memory:alloc_in_new_tlab_bytes": { label: "Allocated (in TLAB)", what: "Bytes that Java allocated in thread-local buffers." },
  "memory:alloc_in_new_tlab_objects": { label: "Allocations (in TLAB)", what: "Objects that Java allocated in thread-local buffers." },
  "goroutines:goroutine": { label: "Goroutines", what: "Goroutines that there are, by where they stand." },
  "goroutine:goroutine": { label: "Goroutines", what: "Goroutines that there are, by where they stand." },
  "mutex:delay": { label: "Mutex delay", what: "Time that others waited for a lock which this code held." },
  "mutex:contentions": { label: "Mutex contentions", what: "How often others waited for a lock which this code held." },
  "block:delay": { label: "Block delay", what: "Time that goroutines waited for channels and locks." },
  "block:contentions": { label: "Block contentions", what: "How often goroutines waited for channels and locks." },
  "wall:wall": { label: "Wall time", what: "Time that passed, running or waiting." },
  "off_cpu:off_cpu": { label: "Off-CPU time", what: "Time that threads waited instead of running." },
};

export function meaning(id: string): Meaning {
  const type = profileType(id);
  const known = BY_NAME[`${type.name}:${type.sample}`];
  if (known !== undefined) return known;
  const words = (type.sample === "" || type.sample === type.name ? type.name : `${type.name} ${type.sample}`).replaceAll("_", " ");
  return {
    label: words === "" ? "Profile" : words[0]!.toUpperCase() + words.slice(1),
    what: `Values of ${type.sample || type.name} in ${type.unit || "units"}.`,
  };
}

/* CPU first: what most people come for. */
const ORDER = [
  "process_cpu:cpu",
  "wall:wall",
  "off_cpu:off_cpu",
  "memory:alloc_space",
  "memory:alloc_in_new_tlab_bytes",
  "memory:inuse_space",
];

export function byImportance(left: string, right: string): number {
  const rank = (id: string): number => {
    const type = profileType(id);
    const at = ORDER.indexOf(`${type.name}:${type.sample}`);
    return at < 0 ? ORDER.length : at;
  };
  return rank(left) - rank(right) || (left < right ? -1 : left > right ? 1 : 0);
}

/* What there is at a moment, and not what happened since the profile before; as /api/metrics has it. */
export function isLevel(id: string): boolean {
  const type = profileType(id);
  return type.sample.startsWith("inuse_") || ["goroutine", "goroutines", "threadcreate", "live"].includes(type.sample);
}

/* A point of a timeline: of levels a mean, of everything else a sum per second. */
export function formatPoint(amount: number, id: string): string {
  return isLevel(id) ? formatValue(amount, unitOf(id)) : formatRate(amount, unitOf(id));
}

/* Labels that tell instances apart, the most common first, and what they count: the server's default of querier.instance_labels. */
const INSTANCES: readonly [string, string][] = [
  ["pod", "pod"],
  ["instance", "instance"],
  ["hostname", "host"],
  ["service_instance_id", "instance"],
];

/* "12 pods"; "": no label says it. */
export function instancesOf(labels: readonly { name: string; values: number }[]): string {
  for (const [label, noun] of INSTANCES) {
    const values = labels.find((one) => one.name === label)?.values ?? 0;
    if (values > 0) return `${formatCount(values)} ${noun}${values === 1 ? "" : "s"}`;
  }
  return "";
}

/* What a timeline's head says it shows. */
export function rateTitle(id: string): string {
  const type = profileType(id);
  if (`${type.name}:${type.sample}` === "process_cpu:cpu") return "CPU cores used";
  return isLevel(id) ? `${meaning(id).label}, mean of the profiles` : `${meaning(id).label} per second`;
}
