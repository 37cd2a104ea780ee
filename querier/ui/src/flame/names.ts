/*
 * Function names of all languages: which package they belong to and how they are said in less space.
 *
 * A profile does not say which language a name is of, so the name has to. The forms that are told apart:
 *   Go         github.com/acme/shop/api.(*Server).Get[go.shape.int]    package: up to the first dot after the last slash
 *   Java       java/util/HashMap.get, java.util.HashMap.get            package: up to the class
 *   Python     django/core/handlers/base.py:get_response               package: the file's folder
 *   Node       node:internal/main:run:12, ./src/index.js:handle:3      package: the file's folder
 *   Rust       <alloc::vec::Vec<T> as core::iter::Iterator>::next      package: the crate, or the namespace (C++)
 *   PHP        Symfony\Component\Kernel::handle                        package: up to the class
 *   .NET       System.Private.CoreLib!System.Threading.Thread.Start    package: the assembly
 *   native     libc.so.6+0x9f2a1                                       package: the file
 */

/* Where the package of a name ends: name.slice(0, end) is the package, and sep characters separate it from the rest. */
interface Split {
  end: number;
  sep: number;
}

const NONE: Split = { end: 0, sep: 0 };
const FILE = /\.(?:py|rb|js|mjs|cjs|ts|tsx|jsx|php|exs?|erl|lua|pl|cs|java|kt|scala|cc?|cpp|h|hpp|rs|go)(?::| )/;
const OFFSET = /^[^\s:]+\+0x[0-9a-f]+$/i;

function split(name: string): Split {
  if (name.length === 0 || name[0] === "[") return NONE;
  const offset = name.indexOf("+0x");
  if (offset > 0 && OFFSET.test(name)) return { end: offset, sep: 1 };
  const file = FILE.exec(name);
  if (file) {
    const slash = name.lastIndexOf("/", file.index);
    return slash > 0 ? { end: slash, sep: 1 } : { end: file.index + file[0].length - 1, sep: 1 };
  }
  const bang = name.indexOf("!");
  if (bang > 0) return { end: bang, sep: 1 };
  if (name.includes("::")) return byColons(name);
  const backslash = name.lastIndexOf("\\");
  if (backslash > 0) return { end: backslash, sep: 1 };
  return byDots(name);
}

/* Rust and C++. A type with traits, <A as B>::f, is A's. */
function byColons(name: string): Split {
  let start = 0;
  while (start < name.length && (name[start] === "<" || name[start] === "&" || name[start] === "*")) start++;
  const end = name.indexOf("::", start);
  const angle = name.indexOf("<", start);
  if (angle > 0 && angle < end) return NONE;
  return end > start ? { end, sep: 2 } : NONE;
}

/* Go, Java and what else separates by dots. Arguments and type parameters have slashes and dots of their own. */
function byDots(name: string): Split {
  let stop = name.length;
  for (let i = 1; i < stop; i++) {
    const c = name[i]!;
    if (c === "[" || c === "<" || c === " " || (c === "(" && name[i - 1] !== ".")) stop = i;
  }
  const slash = name.lastIndexOf("/", stop - 1);
  const dot = name.indexOf(".", slash + 1);
  if (dot <= 0 || dot >= stop) return slash > 0 ? { end: slash, sep: 1 } : NONE;
  if (slash >= 0) {
    /* java/util/HashMap.get: what is between slash and dot is a class, and never a package of Go. */
    if (isUpper(name.charCodeAt(slash + 1)) && !name.slice(0, slash).includes(".")) return { end: slash, sep: 1 };
    return { end: dot, sep: 1 };
  }
  /* java.util.HashMap.get: the part before the first one in capitals. */
  let from = 0;
  let dots = 0;
  for (let at = dot; at >= 0 && at < stop; at = name.indexOf(".", at + 1)) {
    if (isUpper(name.charCodeAt(from)) && from > 0 && dots > 1) return { end: from - 1, sep: 1 };
    from = at + 1;
    dots++;
  }
  return { end: dot, sep: 1 };
}

function isUpper(code: number): boolean {
  return code >= 65 && code <= 90;
}

/* The package of a name; empty if it has none. */
export function packageOf(name: string): string {
  const at = split(name);
  if (at.end === 0) return "";
  const found = name.slice(0, at.end);
  if (at.sep !== 2) return found;
  /* What stands before a name space: "<", and the type that a function of C++ returns. */
  const bare = found.replace(/^[<&*]+/, "");
  return bare.slice(bare.lastIndexOf(" ") + 1);
}

/* A name in two parts, to be shown in two colours; together they are the name, without the folders of its package. */
export function splitName(name: string): { dim: string; main: string } {
  const at = split(name);
  if (at.end === 0) return { dim: "", main: name };
  const start = folderEnd(name, at.end);
  return { dim: name.slice(start, at.end + at.sep), main: name.slice(at.end + at.sep) };
}

function folderEnd(name: string, end: number): number {
  return Math.max(name.lastIndexOf("/", end - 1), name.lastIndexOf("\\", end - 1)) + 1;
}

/* What a bar may say, the longest first: the name, without folders, without the package, the method alone. */
export function shortNames(name: string): string[] {
  const at = split(name);
  if (at.end === 0) return [name];
  const all = [name, name.slice(folderEnd(name, at.end)), name.slice(at.end + at.sep)];
  const rest = all[2]!;
  const paren = rest.search(/[[(<{ ](?!\*)/);
  const head = paren > 0 ? rest.slice(0, paren) : rest;
  const last = Math.max(head.lastIndexOf(".") + 1, head.lastIndexOf("::") + 2, head.lastIndexOf("#") + 1);
  if (last > 1 && last < rest.length) all.push(rest.slice(last));
  return all.filter((text, i) => text.length > 0 && text !== all[i - 1]);
}

const RUNTIME = new RegExp(
  [
    "^(runtime|syscall|internal/(runtime|poll|abi|bytealg)[\\w/]*|golang\\.org/x/sys/\\w+)\\." /* Go */,
    "^(jdk|sun|java/lang|jdk/internal|java\\.lang)[/.]" /* Java */,
    "^(node:internal|\\(garbage collector\\)|\\(program\\)|\\(idle\\))" /* Node */,
    "^(core|std|alloc)::(rt|sys|panicking|ops::function|thread)::" /* Rust */,
    "^System\\.Private\\.CoreLib!",
    "^\\[",
    "^(ld-linux|libc|libpthread|libc-2|linux-vdso|vmlinux|linux|kernel)[-.\\w]*\\+0x",
    "^(do_syscall|entry_SYSCALL|__x64_sys|x64_sys|__libc_start|clone3?$|_start$|start_thread$|asm_|ret_from_fork|syscall_)",
    "\\[k\\]$|_\\[k\\]$",
  ].join("|"),
);

/* Whether a name is of a language's run time, of the kernel or of a system call. */
export function isRuntime(name: string): boolean {
  return RUNTIME.test(name);
}

/* What decides on a name's colour. C has no packages; what its names begin with does the same: uv_, rocksdb_. */
export function colourKey(name: string): string {
  const found = packageOf(name);
  if (found !== "") return found;
  const prefix = /^_*([A-Za-z][A-Za-z0-9]+)_/.exec(name);
  return prefix ? prefix[1]! : name;
}
