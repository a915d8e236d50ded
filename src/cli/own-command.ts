/**
 * How another program starts a command of ours from any folder. `npx understudy` is no such line: outside of the checkout
 * npx fetches the package that has this name on npm, which is another project's. Main thread.
 */

import { fileURLToPath } from 'node:url';
import { quoteForShell } from '../std/shell-word.ts';

/** By the paths of this Node and this copy, so that nobody looks for them anew each time. */
export function renderOwnCommand(words: readonly string[]): string {
  const entry = fileURLToPath(new URL(findEntry(), import.meta.url));
  return [process.execPath, entry, ...words].map(quoteForShell).join(' ');
}

/** The command lies beside the sources, compiled or not. */
function findEntry(): string {
  return import.meta.url.endsWith('.ts') ? './understudy.mjs' : '../../../src/cli/understudy.mjs';
}
