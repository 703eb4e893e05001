// Runs a script, with the files beside it, in MicroPython's WebAssembly port: node micropython_run.mjs SCRIPT
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { loadMicroPython } = await import(pathToFileURL(process.env.MICROPYTHON));
const script = path.resolve(process.argv[2]);
const python = await loadMicroPython({
  heapsize: 4 * 1024 * 1024,
  stdout: (line) => process.stdout.write(line + "\n"),
  linebuffer: true,
});
for (const name of fs.readdirSync(path.dirname(script))) {
  const file = path.join(path.dirname(script), name);
  if (fs.statSync(file).isFile()) python.FS.writeFile("/" + name, fs.readFileSync(file));
}
try {
  python.runPython(fs.readFileSync(script, "utf8"));
} catch (error) {
  console.error(String(error.message || error));
  process.exit(1);
}
