/**
 * Makes sure that a service ends after a stop was requested. A timer in the main thread ends a stop
 * that exceeds its grace period. If the main thread cannot run code, for example because it waits
 * for a thread that never ends, a small separate process kills the service. Main thread of the
 * command line.
 */
import { spawn } from 'node:child_process';

/** How often the watching process checks, and how much later than the watched process it acts. */
const END_WATCH_MS = { look: 250, patience: 3_000 } as const;

/**
 * Watches its parent process, and kills the parent if it still runs after the given time. If the parent ends earlier,
 * this process gets another parent and exits. So it never kills a process that reuses the process id.
 */
const WATCHER = `
const [pid, ms] = process.argv.slice(1).map(Number);
const until = performance.now() + ms;
setInterval(() => {
  if (process.ppid !== pid) process.exit();
  if (performance.now() < until) return;
  try { process.kill(pid, 'SIGKILL'); } catch {}
  process.exit();
}, ${END_WATCH_MS.look});
`;

/**
 * Ends this process with status 1 if it still exists after its grace period. If that fails, a small process kills it a
 * little later.
 * @param tell called before the process is ended
 */
export function watchEnd(graceMs: number, tell: () => void): void {
  setTimeout(() => {
    tell();
    process.exit(1);
  }, graceMs).unref();
  const child = spawn(
    process.execPath,
    ['-e', WATCHER, String(process.pid), String(graceMs + END_WATCH_MS.patience)],
    { stdio: 'ignore', detached: true, env: {} },
  );
  // If the watcher cannot start, the timer above still works.
  child.on('error', () => {});
  child.unref();
}
