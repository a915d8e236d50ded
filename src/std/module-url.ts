/**
 * Finds an entry file (a worker's, a child process's) beside the running module, in a checkout and in `dist/` alike.
 * Import specifiers are rewritten from `.ts` to `.js` by the build; `new URL('./host.ts', import.meta.url)` is not,
 * so every such address goes through here. In a bundle (tools/bundle-service.ts) all entries lie beside each other. Any thread.
 */

/**
 * @param entry the file as the source tree names it, relative to the caller: `'../threads/actor-thread-entry.ts'`
 * @param caller the caller's `import.meta.url`; its own extension tells which tree is running
 * @returns the file's URL with the extension that exists there: `.ts` in a checkout, `.js` in `dist/`
 */
export function resolveModuleUrl(entry: string, caller: string): URL {
  // In a bundle, this is set to the location of the source.
  const own = import.meta.url;
  if (own.endsWith('.mjs')) return new URL(`${/([^/]*)\.ts$/.exec(entry)![1]}.mjs`, own);
  const isBuilt = new URL(caller).pathname.endsWith('.js');
  return new URL(isBuilt ? entry.replace(/\.ts$/, '.js') : entry, caller);
}
