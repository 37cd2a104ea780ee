/*
 * Addresses of source files: of the repository that the labels service_repository, service_git_ref and service_root_path name, as
 * Pyroscope has them; of Go modules, by the version in the file's name; or as the person's own template has it. Values of labels
 * and names of files come from outside: an address is one of the web, or none.
 */

export interface Repository {
  url: string; // service_repository: https://…, host/owner/name, or git@host:owner/name.git
  ref: string; // service_git_ref; "": the default branch
  root: string; // service_root_path: where the service is in the repository
}

interface Place {
  base: string; // of the repository, without a slash at its end
  ref: string;
  path: string;
}

const MODULE = /(?:^|\/pkg\/mod\/|\/vendor\/)(github\.com\/[^/@]+\/[^/@]+)((?:\/[^@]+?)?)@(v[^/]+)\/(.+)$/;
const GO = /(?:^|\/)(?:usr\/local\/go|golang|goroot|go\/?(1\.[0-9.]+)?)\/src\/(.+\.(?:go|s))$/i;
const COMMIT = /-([0-9a-f]{12})$/; // of a version that Go made up

/* An address of the web, or null. */
function web(text: string): URL | null {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return null;
  }
  const isPlain = url.protocol === "https:" || url.protocol === "http:";
  return isPlain && url.hostname !== "" && url.username === "" && url.password === "" ? url : null;
}

/* Every part of a path, so that none of it is taken for a query or a fragment. */
function encoded(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

/* Without "." and ".."; null: it leads out of its root. */
function normal(path: string): string | null {
  const out: string[] = [];
  for (const part of path.replaceAll("\\", "/").split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") out.push(part);
    else if (out.pop() === undefined) return null;
  }
  return out.join("/");
}

export function repositoryBase(text: string): string | null {
  const ssh = /^(?:ssh:\/\/)?git@([^:/]+)[:/](.+)$/.exec(text);
  const url = web(ssh !== null ? `https://${ssh[1]}/${ssh[2]}` : text.includes("://") ? text : `https://${text}`);
  if (url === null) return null;
  const path = url.pathname.replace(/\/+$/, "").replace(/\.git$/, "");
  return path.split("/").length < 3 ? null : url.origin + path; // an owner and a name at least
}

function ofModule(file: string): Place | null {
  const found = MODULE.exec(file);
  if (found === null) return null;
  const [, repository, below, version, rest] = found as unknown as [string, string, string, string, string];
  const folder = below.slice(1).replace(/(^|\/)v[0-9]+$/, ""); // the major version is in the module's name, not in the repository
  const commit = COMMIT.exec(version);
  const tag = version.replace(/\+incompatible$/, "");
  const path = normal(`${folder}/${rest}`);
  if (path === null) return null;
  return { base: `https://${repository}`, ref: commit?.[1] ?? (folder === "" ? tag : `${folder}/${tag}`), path };
}

/* A file that is not known by an absolute path of the machine that built it has no place in the repository. */
function inRepository(file: string, repository: Repository): Place | null {
  const base = repositoryBase(repository.url);
  if (base === null) return null;
  const [owner, name] = base.split("/").slice(-2) as [string, string];
  const path = file.replaceAll("\\", "/");
  const within = [`${owner}/${name}/`, `${name}/`]
    .map((folder) => ({ folder, at: `/${path}`.lastIndexOf(`/${folder}`) }))
    .find(({ at }) => at >= 0);
  const isAbsolute = /^(?:[A-Za-z]:)?\//.test(path);
  if (within === undefined && isAbsolute) return null;
  const inside = within !== undefined ? normal(path.slice(within.at + within.folder.length)) : normal(`${repository.root}/${path}`);
  return inside === null || inside === "" ? null : { base, ref: repository.ref || "HEAD", path: inside };
}

/* As the hosts that people use write it; others are taken for ones like GitHub. */
function addressOf({ base, ref, path }: Place, line: number): string {
  const host = new URL(base).hostname;
  const mark = line > 0 ? (host === "bitbucket.org" ? `#lines-${line}` : `#L${line}`) : "";
  const folder = host === "bitbucket.org" ? "src" : host.split(".").includes("gitlab") ? "-/blob" : "blob";
  return `${base}/${folder}/${encoded(ref)}/${encoded(path)}${mark}`;
}

/* Where a line of a file can be read; line 0: the file. null: nobody knows. */
export function sourceOf(file: string, line: number, repository: Repository | null): string | null {
  if (file === "" || file.startsWith("<") || file.startsWith("[")) return null;
  const go = GO.exec(file);
  const place =
    ofModule(file) ??
    (repository !== null ? inRepository(file, repository) : null) ??
    (go !== null ? { base: "https://github.com/golang/go", ref: go[1] === undefined ? "HEAD" : `go${go[1]}`, path: `src/${go[2]}` } : null);
  return place === null ? null : (web(addressOf(place, line))?.href ?? null);
}

/* A person's own address with {name}, {path}, {line}, {repo} and {ref}; null: there is none, or it is not one of the web. */
export function linkOf(template: string, name: string, file = "", line = 0, repository: Repository | null = null): string | null {
  const values: Record<string, string> = {
    name: encodeURIComponent(name),
    path: encoded(file.replace(/^\/+/, "")),
    line: String(line),
    repo: encoded((repository?.url ?? "").replace(/^[a-z]+:\/\//, "")),
    ref: encoded(repository?.ref || "HEAD"),
  };
  return web(template.replace(/\{(name|path|line|repo|ref)\}/g, (_, key: string) => values[key]!))?.href ?? null;
}
