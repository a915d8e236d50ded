/** The process of one hook: `understudy.mjs` loads this and nothing else of the command line. Command line. */
import { runHook } from './hook.ts';

await runHook(process.argv.slice(3));
