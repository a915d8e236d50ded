/**
 * Finds an entry file (a worker's, a child process's) beside the running module, in a checkout, in `dist/` and in a
 * bundle. The build rewrites import specifiers from `.ts` to `.js`, but not `new URL('./host.ts', import.meta.url)`. So
 * `resolveModuleUrl` makes all URLs of entry files. In a bundle (tools/bundle-service.ts), all entries are in one
 * folder. Any thread.
 */

/**
 * Finds the URL of an entry file.
 * @param entry path of the file in the source tree, relative to the caller: `'../threads/actor-thread-entry.ts'`
 * @param caller the caller's `import.meta.url`; its extension shows whether the source tree or `dist/` is running
 * @returns the file's URL with the extension that exists there: `.ts` in a checkout, `.js` in `dist/`, `.mjs` in a
 *   bundle
 */
export function resolveModuleUrl(entry: string, caller: string): URL {
  // In a bundle, `caller` is the location of the caller's source, and the URL of this module is that of the bundle.
  const own = import.meta.url;
  if (own.endsWith('.mjs')) return new URL(`${/([^/]*)\.ts$/.exec(entry)![1]}.mjs`, own);
  const isBuilt = new URL(caller).pathname.endsWith('.js');
  return new URL(isBuilt ? entry.replace(/\.ts$/, '.js') : entry, caller);
}
