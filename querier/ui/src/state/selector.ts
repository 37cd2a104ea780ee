/* Selectors of PromQL as querier/API.md has them: TYPE{name="value", "odd.name"=~"a|b"}. */

export type Operator = "=" | "!=" | "=~" | "!~";
export const OPERATORS: readonly Operator[] = ["=", "!=", "=~", "!~"];

export interface Matcher {
  name: string;
  op: Operator;
  value: string;
}

export interface Query {
  type: string; // "": none
  matchers: Matcher[];
}

const PLAIN_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
const PLAIN_TYPE = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const ESCAPES: Record<string, string> = { n: "\n", t: "\t", r: "\r", a: "\x07", b: "\b", f: "\f", v: "\v" };

class Reader {
  at = 0;
  constructor(readonly text: string) {}

  skip(): void {
    while (/\s/.test(this.text[this.at] ?? "")) this.at++;
  }

  take(pattern: RegExp): string | null {
    const sticky = new RegExp(pattern.source, "y");
    sticky.lastIndex = this.at;
    const found = sticky.exec(this.text);
    if (found === null) return null;
    this.at = sticky.lastIndex;
    return found[0];
  }

  fail(wanted: string): never {
    const rest = this.text.slice(this.at, this.at + 20);
    throw new SyntaxError(`the selector needs ${wanted} at character ${this.at + 1}${rest === "" ? ", where it ends" : `, not "${rest}"`}`);
  }

  string(): string | null {
    const quote = this.text[this.at];
    if (quote !== '"' && quote !== "'" && quote !== "`") return null;
    let out = "";
    for (this.at++; this.at < this.text.length; this.at++) {
      const char = this.text[this.at]!;
      if (char === quote) {
        this.at++;
        return out;
      }
      if (char !== "\\" || quote === "`") {
        out += char;
        continue;
      }
      const next = this.text[++this.at] ?? "";
      if (next === "x" || next === "u" || next === "U") {
        const digits = next === "x" ? 2 : next === "u" ? 4 : 8;
        out += String.fromCodePoint(parseInt(this.text.slice(this.at + 1, this.at + 1 + digits), 16) || 0xfffd);
        this.at += digits;
      } else {
        out += ESCAPES[next] ?? next;
      }
    }
    return this.fail(`a closing ${quote}`);
  }
}

/* Reads TYPE{…}, {…} or TYPE. Throws a SyntaxError that says where and why. */
export function parseQuery(text: string): Query {
  const reader = new Reader(text);
  const query: Query = { type: "", matchers: [] };

  reader.skip();
  query.type = reader.take(/[^{\s]+/) ?? "";
  reader.skip();
  if (reader.at === text.length) return query;
  if (reader.take(/\{/) === null) reader.fail("{");
  for (;;) {
    reader.skip();
    if (reader.take(/\}/) !== null) break;
    const name = reader.string() ?? reader.take(/[a-zA-Z_][a-zA-Z0-9_]*/) ?? reader.fail("the name of a label");
    reader.skip();
    const op = (reader.take(/=~|!~|!=|=/) ?? reader.fail("=, !=, =~ or !~")) as Operator;
    reader.skip();
    const value = reader.string() ?? reader.fail("a value in quotes");
    if (name === "__name__" && op === "=") query.type = value;
    else query.matchers.push({ name, op, value });
    reader.skip();
    if (reader.take(/,/) === null && text[reader.at] !== "}") reader.fail(", or }");
  }
  reader.skip();
  if (reader.at !== text.length) reader.fail("nothing more");
  return query;
}

/* Strings of JSON are strings of PromQL. */
function quoted(value: string): string {
  return JSON.stringify(value);
}

export function formatMatcher(matcher: Matcher): string {
  const name = PLAIN_NAME.test(matcher.name) ? matcher.name : quoted(matcher.name);
  return `${name}${matcher.op}${quoted(matcher.value)}`;
}

/* {a="b",c="d"}: the part without the type. */
export function formatSelector(matchers: readonly Matcher[]): string {
  return `{${matchers.map(formatMatcher).join(",")}}`;
}

export function formatQuery(query: Query): string {
  if (query.type === "" || PLAIN_TYPE.test(query.type)) return query.type + formatSelector(query.matchers);
  return formatSelector([{ name: "__name__", op: "=", value: query.type }, ...query.matchers]);
}

/* What the page shows apart: the service is a matcher like others in a query. */
export function serviceOf(query: Query): string {
  return query.matchers.find((matcher) => matcher.name === "service_name" && matcher.op === "=")?.value ?? "";
}

export function withService(query: Query, service: string): Query {
  const others = query.matchers.filter((matcher) => matcher.name !== "service_name");
  if (service === "") return { ...query, matchers: others };
  return { ...query, matchers: [{ name: "service_name", op: "=", value: service }, ...others] };
}

/* The same matcher only once; another value for = of a label takes the place of the old one. */
export function withMatcher(query: Query, matcher: Matcher): Query {
  const kept = query.matchers.filter(
    (other) => !(other.name === matcher.name && other.op === matcher.op && (matcher.op === "=" || other.value === matcher.value)),
  );
  return { ...query, matchers: [...kept, matcher] };
}

export function withoutMatcher(query: Query, index: number): Query {
  return { ...query, matchers: query.matchers.filter((_, at) => at !== index) };
}
