// Unpacks the browser that npm brought: node unpack.cjs FOLDER
const { execFileSync } = require("node:child_process");
const { createReadStream, createWriteStream, chmodSync, mkdirSync, renameSync, writeFileSync, readFileSync } = require("node:fs");
const { join } = require("node:path");
const { pipeline } = require("node:stream/promises");
const { brotliDecompressSync, createBrotliDecompress } = require("node:zlib");

const packed = join(__dirname, "node_modules", "@sparticuz", "chromium", "bin");
const folder = process.argv[2];

async function main() {
  mkdirSync(folder, { recursive: true });
  for (const name of ["al2023", "fonts"]) {
    const archive = join(folder, `${name}.tar`);
    writeFileSync(archive, brotliDecompressSync(readFileSync(join(packed, `${name}.tar.br`))));
    execFileSync("tar", ["-xf", archive, "-C", folder]);
  }
  const partial = join(folder, "chromium.partial");
  await pipeline(createReadStream(join(packed, "chromium.br")), createBrotliDecompress(), createWriteStream(partial));
  chmodSync(partial, 0o755);
  renameSync(partial, join(folder, "chromium"));
}

main();
