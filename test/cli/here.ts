/**
 * The command line in the test's own process, for tests that need no separate process, for example of refusals.
 * Commands run one at a time, because they share the process's environment. Commands that read capture files
 * otherwise run in a guarded process (src/cli/guard.ts). Here they do not, so a damaged file may crash the test.
 */
import { runUnderstudy } from '../../src/cli/command-line.ts';
import { IN_PROCESS } from '../../src/cli/guard.ts';
import { FEW_THREADS, omitProgress } from './child.ts';

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Runs a command that ends by itself, with only this environment. Its output has no lines of progress. */
export async function runHere(
  argv: string[],
  env: Record<string, string> = {},
): Promise<{ code: number; stdout: string; stderr: string }> {
  const before = process.env;
  const heard = SIGNALS.map((signal) => process.listeners(signal));
  const told = { stdout: '', stderr: '' };
  process.env = { PATH: before.PATH, ...FEW_THREADS, ...env };
  const umask = process.umask(0o077);
  try {
    const code = await runUnderstudy([IN_PROCESS.quiet, ...argv], {
      out: async (data) => {
        told.stdout += typeof data === 'string' ? data : Buffer.from(data).toString();
      },
      err: (text) => {
        told.stderr += text;
      },
      is_terminal: false,
      has_color: false,
    });
    return { code, stdout: told.stdout, stderr: omitProgress(told.stderr) };
  } finally {
    process.umask(umask);
    process.env = before;
    for (const [at, signal] of SIGNALS.entries())
      for (const listener of process.listeners(signal))
        if (!heard[at]!.includes(listener)) process.off(signal, listener);
  }
}
