export function Spans() { return null; }
