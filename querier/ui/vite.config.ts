import react from "@vitejs/plugin-react";
import { type Plugin, build, defineConfig } from "vite";

/*
 * Puts src/theme-boot.js into the head as a file of its own: it runs before the first paint, which a module
 * does not, and the policy of the page allows no inline script.
 */
function themeBoot(): Plugin {
  let reference: string;

  return {
    name: "theme-boot",
    apply: "build",
    async buildStart() {
      const { readFile } = await import("node:fs/promises");
      reference = this.emitFile({
        type: "asset",
        name: "theme-boot.js",
        source: await readFile("src/theme-boot.js", "utf8"),
      });
    },
    transformIndexHtml: {
      order: "post",
      handler: (html) => {
        return { html, tags: [{ tag: "script", attrs: { src: `./${bootName}` }, injectTo: "head-prepend" }] };
      },
    },
    generateBundle() {
      bootName = this.getFileName(reference);
    },
  };
}
let bootName = "";

/*
 * The viewer that exported pages carry (src/flame/standalone.ts), as one classic script and one style sheet. The page has both
 * as text in a module that is loaded only for such an export.
 */
function viewer(): Plugin {
  const name = "\0virtual:viewer";

  return {
    name: "viewer",
    resolveId: (id) => (id === "virtual:viewer" ? name : null),
    async load(id) {
      if (id !== name) return null;
      const built = await build({
        configFile: false,
        logLevel: "error",
        build: {
          write: false,
          target: "es2022",
          lib: { entry: "src/flame/standalone.ts", formats: ["iife"], name: "flamegrid", fileName: "viewer", cssFileName: "viewer" },
        },
      });
      const files = (Array.isArray(built) ? built[0]! : built) as {
        output: { type: string; fileName: string; code?: string; source?: string | Uint8Array }[];
      };
      const script = files.output.find((file) => file.type === "chunk")!.code!;
      const style = files.output.find((file) => file.fileName.endsWith(".css"))?.source ?? "";
      return `export const script = ${JSON.stringify(script)};\nexport const style = ${JSON.stringify(String(style))};`;
    },
  };
}

export default defineConfig({
  // Relative, so that the page works below any prefix of a proxy: all its pages are in one folder.
  base: "./",
  plugins: [react(), themeBoot(), viewer()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
  worker: { format: "es" },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/pyroscope", "/querier.v1.QuerierService", "/ingest"].map((path) => [path, "http://127.0.0.1:4040"]),
    ),
  },
});
