/**
 * Runs a source file for npm's scripts, like `node FILE`: `node tools/run.mjs [--env-file=FILE] FILE [ARGUMENTS]`. If
 * Node is too old for the sources, it prints one line instead of a stack trace. Plain JavaScript, so that an old Node
 * can print that line. Development, main thread.
 */
import '../src/cli/needs-node.mjs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const words = process.argv.slice(2);
if (words[0]?.startsWith('--env-file=')) process.loadEnvFile(words.shift().slice('--env-file='.length));
const file = resolve(words.shift() ?? '');
process.argv.splice(1, Number.POSITIVE_INFINITY, file, ...words);
await import(pathToFileURL(file).href);
