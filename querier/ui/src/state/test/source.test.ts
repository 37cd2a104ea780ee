import { describe, expect, test } from "vitest";
import { linkOf, repositoryBase, sourceOf } from "../source";

const shop = { url: "https://github.com/acme/shop", ref: "3f2a", root: "" };

describe("addresses of source", () => {
  test.each([
    ["https://github.com/acme/shop", "https://github.com/acme/shop"],
    ["https://github.com/acme/shop.git/", "https://github.com/acme/shop"],
    ["github.com/acme/shop", "https://github.com/acme/shop"],
    ["git@github.com:acme/shop.git", "https://github.com/acme/shop"],
    ["ssh://git@git.example/acme/shop.git", "https://git.example/acme/shop"],
    ["http://git.example:3000/team/sub/shop", "http://git.example:3000/team/sub/shop"],
    ["https://github.com/acme", null],
    ["https://user:secret@github.com/acme/shop", null],
    ["javascript:alert(1)//a/b", null],
    ["javascript://github.com/acme/shop%0aalert(1)", null],
    ["data:text/html,a/b/c", null],
    ["file:///etc/passwd/x", null],
    ["", null],
  ])("repository %s", (text, want) => expect(repositoryBase(text)).toBe(want));

  test.each([
    ["src/main.py", 12, shop, "https://github.com/acme/shop/blob/3f2a/src/main.py#L12"],
    ["./src/../lib/a.js", 0, shop, "https://github.com/acme/shop/blob/3f2a/lib/a.js"],
    ["main.go", 3, { ...shop, ref: "" }, "https://github.com/acme/shop/blob/HEAD/main.go#L3"],
    ["main.go", 3, { ...shop, ref: "feature/x?" }, "https://github.com/acme/shop/blob/feature/x%3F/main.go#L3"],
    ["main.go", 3, { ...shop, root: "services/api/" }, "https://github.com/acme/shop/blob/3f2a/services/api/main.go#L3"],
    ["github.com/acme/shop/api/get.go", 3, shop, "https://github.com/acme/shop/blob/3f2a/api/get.go#L3"],
    ["/home/build/shop/api/get.go", 3, shop, "https://github.com/acme/shop/blob/3f2a/api/get.go#L3"],
    ["C:\\build\\shop\\Api.cs", 3, shop, "https://github.com/acme/shop/blob/3f2a/Api.cs#L3"],
    ["/home/build/other/get.go", 3, shop, null],
    ["../../etc/passwd", 3, shop, null],
    ["a b#c?.py", 3, shop, "https://github.com/acme/shop/blob/3f2a/a%20b%23c%3F.py#L3"],
    ["main.rs", 3, { ...shop, url: "https://gitlab.example/a/b/shop" }, "https://gitlab.example/a/b/shop/-/blob/3f2a/main.rs#L3"],
    ["main.rs", 3, { ...shop, url: "https://bitbucket.org/a/shop" }, "https://bitbucket.org/a/shop/src/3f2a/main.rs#lines-3"],
    ["main.rs", 3, { ...shop, url: "javascript:alert(1)" }, null],
    ["main.rs", 3, null, null],
    ["", 3, shop, null],
    ["<string>", 3, shop, null],
    ["/go/pkg/mod/github.com/gin-gonic/gin@v1.9.0/context.go", 7, shop, "https://github.com/gin-gonic/gin/blob/v1.9.0/context.go#L7"],
    ["github.com/a/sdk/service/s3@v1.2.3/api.go", 7, null, "https://github.com/a/sdk/blob/service/s3/v1.2.3/service/s3/api.go#L7"],
    ["github.com/a/x/v5@v5.1.0+incompatible/b/c.go", 7, null, "https://github.com/a/x/blob/v5.1.0/b/c.go#L7"],
    ["github.com/a/x@v0.0.0-20240101000000-0123456789ab/c.go", 7, null, "https://github.com/a/x/blob/0123456789ab/c.go#L7"],
    ["/usr/local/go/src/runtime/proc.go", 7, null, "https://github.com/golang/go/blob/HEAD/src/runtime/proc.go#L7"],
    ["/opt/go1.22.1/src/runtime/proc.go", 7, null, "https://github.com/golang/go/blob/go1.22.1/src/runtime/proc.go#L7"],
  ])("%s:%i", (file, line, repository, want) => expect(sourceOf(file, line, repository)).toBe(want));

  test("a template of the person's own", () => {
    const template = "https://git.example/{repo}/raw/{ref}/{path}?f={name}#{line}";
    expect(linkOf(template, "a&b", "/src/x y.go", 4, shop)).toBe(
      "https://git.example/github.com/acme/shop/raw/3f2a/src/x%20y.go?f=a%26b#4",
    );
    expect(linkOf("https://find.example/?q={name}", "f{line}")).toBe("https://find.example/?q=f%7Bline%7D");
    expect(linkOf("", "f")).toBe(null);
    expect(linkOf("javascript:alert('{name}')", "f")).toBe(null);
    expect(linkOf("{name}", "javascript:alert(1)")).toBe(null);
  });
});
