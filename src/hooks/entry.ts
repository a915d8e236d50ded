/**
 * Entry point of a hook's process: `understudy.mjs` loads only this part of the command line. Command line.
 */
import { runHook } from './hook.ts';

await runHook(process.argv.slice(3));
