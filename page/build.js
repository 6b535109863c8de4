// Builds the page into the Python package: one script, one style sheet, one worker, one document.
import { build } from "esbuild";
import { copyFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "src", "hippotune", "page", "static");

mkdirSync(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.js", worker: "src/live/worker.js", style: "src/style.css" },
  outdir: out,
  bundle: true,
  minify: true,
  target: ["chrome110", "firefox115", "safari16.4"],
  format: "iife",
  legalComments: "none",
  logLevel: "warning",
});
copyFileSync(join(here, "src", "index.html"), join(out, "index.html"));
